"""Organizations over HTTP."""

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody

from terracrew.api.groups import NewOrganization, Organization, OrganizationChange, OrganizationDetails
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.identity.access import organizations
from terracrew.server.paging import After, Limit
from terracrew.server.tree.groups import organizations as service


@get("/organizations", summary="List organizations")
async def list_organizations(request: AccessCall, after: After = None, limit: Limit = 50) -> Page[Organization]:
    """List the organizations that you may act in. A request chooses one by the header `Terracrew-Organization`, with the name
    or the id of an organization; without it, it is about your own."""
    return await request.read_in_background(organizations.listing, after, limit)


@post("/organizations", summary="Create an organization")
async def create_organization(request: AccessCall, data: JSONBody[NewOrganization]) -> Organization:
    """Create an organization, with a user as its owner if one is named. Only administrators may."""
    return await request.write(organizations.create, data.name, data.owner)


@get("/organizations/{organization:str}", summary="Show an organization")
async def show_organization(request: AccessCall, organization: FromPath[str]) -> OrganizationDetails:
    """Show an organization by its name or id; its owners and administrators also see what it has."""
    return await request.read(organizations.show, organization)


@patch("/organizations/{organization:str}", summary="Rename an organization")
async def rename_organization(
    request: AccessCall, organization: FromPath[str], data: JSONBody[OrganizationChange]
) -> Organization:
    """Rename an organization. Client ids that begin with its name must be changed, too; those with its id stay valid."""
    return await request.write(service.rename, organization, data.name)


@delete("/organizations/{organization:str}", summary="Delete an empty organization")
async def delete_organization(request: AccessCall, organization: FromPath[str]) -> None:
    """Delete an organization that has neither users, service accounts, groups, modules nor runners."""
    await request.write(organizations.delete, organization)
