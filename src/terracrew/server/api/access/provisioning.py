"""Which service account provisions the people of an organization by SCIM, and whom it manages, over HTTP."""

from litestar import delete, get, post, put
from litestar.params import FromPath, JSONBody

from terracrew.api.pages import Page
from terracrew.api.provisioning import (
    AdoptPerson,
    NewProvisioner,
    ProvisionedGroupListed,
    ProvisionedListed,
    ProvisionerDetails,
)
from terracrew.server.api.context import AccessCall
from terracrew.server.http.engine_services import SCIM_BASE
from terracrew.server.identity.provisioning import owners
from terracrew.server.paging import After, Limit


def _base(request: AccessCall) -> str:
    return request.context.identity.url + SCIM_BASE


@get("/provisioning", summary="Show who provisions people")
async def show_provisioner(request: AccessCall) -> ProvisionerDetails:
    """Show the service account as which an identity provider manages the people of your organization, and its address."""
    return await request.read(owners.show, _base(request))


@put("/provisioning", summary="Choose who provisions people")
async def set_provisioner(request: AccessCall, data: JSONBody[NewProvisioner]) -> ProvisionerDetails:
    """Let a service account create, change and deactivate the people of your organization by SCIM 2.0, instead of the one that did.

    It needs no role. With a provider of single sign-on, who arrives there with the `externalId` of a person is that person.
    """
    return await request.write(owners.choose, data, _base(request))


@delete("/provisioning", summary="End the provisioning")
async def remove_provisioner(request: AccessCall) -> None:
    """Let no service account provision people any more. People and groups stay as they are."""
    await request.write(owners.remove)


@get("/provisioning/people", summary="List provisioned people")
async def list_provisioned_people(
    request: AccessCall, after: After = None, limit: Limit = 50
) -> Page[ProvisionedListed]:
    """List the people whom the identity provider manages, also those whom it has deleted."""
    return await request.read_in_background(owners.list_people, after, limit)


@post("/provisioning/people", summary="Let the identity provider manage a user")
async def adopt_person(request: AccessCall, data: JSONBody[AdoptPerson]) -> ProvisionedListed:
    """Let the identity provider manage a user that exists already, who is not taken over because of a name alone."""
    return await request.write(owners.adopt, data)


@delete("/provisioning/people/{user:str}", summary="Take a user from the identity provider")
async def release_person(request: AccessCall, user: FromPath[str]) -> None:
    """Let owners manage a user again instead of the identity provider. Roles by its groups end."""
    await request.write(owners.release, user)


@get("/provisioning/groups", summary="List provisioned groups")
async def list_provisioned_groups(
    request: AccessCall, after: After = None, limit: Limit = 50
) -> Page[ProvisionedGroupListed]:
    """List the groups that the identity provider manages. Rules of single sign-on turn their names into roles."""
    return await request.read_in_background(owners.list_groups, after, limit)
