"""Service accounts and their secrets."""

import msgspec
from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew import ids
from terracrew.api.access import (
    AccountChange,
    ClientSecret,
    CreatedSecret,
    NewSecret,
    NewServiceAccount,
    RunnerReference,
    ServiceAccount,
    ServiceAccountDetails,
)
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.identity.access import role_reads
from terracrew.server.identity.access import service as access
from terracrew.server.paging import After, Limit
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.runners import reads

MAX_LISTED_RUNNERS = 100


@get("/service-accounts", summary="List service accounts")
async def list_accounts(
    request: AccessCall, group: FromQuery[str] = "", after: After = None, limit: Limit = 50
) -> Page[ServiceAccount]:
    """List the service accounts of a group and below it."""
    return await request.read_in_background(access.accounts, group, after, limit)


@post("/service-accounts", summary="Create a service account")
async def create_account(request: AccessCall, data: JSONBody[NewServiceAccount]) -> ServiceAccount:
    """Create an account for programs in a group. It has no role and no secret yet."""
    return await access.create_account(request.context.db, request.user, data.name, data.group)


@get("/service-accounts/{account_id:str}", summary="Show a service account")
async def show_account(request: AccessCall, account_id: FromPath[str]) -> ServiceAccountDetails:
    """Show a service account by its id or its path (`group/name`), with its roles and the runners that use it."""
    who = request.user

    async def read(tx: Tx) -> ServiceAccountDetails:
        found = await access.find(tx, who, tree_path(account_id))
        seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
        runners = await reads.of_account(tx, seen, found.organization_id, found.id, MAX_LISTED_RUNNERS)
        roles = await role_reads.of_principal(tx, found.id, found.organization_id)
        return ServiceAccountDetails(
            **msgspec.structs.asdict(found),
            roles=tuple(roles),
            runners=tuple(RunnerReference(each.id, each.path) for each in runners),
        )

    return await request.context.db.read(read)


@patch("/service-accounts/{account_id:str}", summary="Change a service account")
async def change_account(
    request: AccessCall, account_id: FromPath[str], data: JSONBody[AccountChange]
) -> ServiceAccount:
    """Rename a service account; disable it, which refuses its secrets and ends its tokens, or enable it again."""
    return await access.change_account(request.context.db, request.user, tree_path(account_id), data)


@delete("/service-accounts/{account_id:str}", summary="Delete a service account")
async def delete_account(request: AccessCall, account_id: FromPath[str]) -> None:
    """Delete a service account with its secrets and roles."""
    await request.write(access.delete_account, ids.parse("sac", account_id))


@get("/service-accounts/{account_id:str}/secrets", summary="List the secrets of a service account")
async def list_secrets(request: AccessCall, account_id: FromPath[str]) -> Page[ClientSecret]:
    """List the secrets of a service account. The secrets themselves cannot be shown again."""
    return Page(await request.read(access.secrets, ids.parse("sac", account_id)))


@post("/service-accounts/{account_id:str}/secrets", summary="Add a secret to a service account")
async def create_secret(
    request: AccessCall, account_id: FromPath[str], data: JSONBody[NewSecret | None] = None
) -> CreatedSecret:
    """Add a secret with which the account gets access tokens at `/connect/token`. The answer shows it once."""
    wanted = data or NewSecret()
    account, stored, secret = await access.create_secret(
        request.context.db, request.user, ids.parse("sac", account_id), wanted.expires_in_days
    )
    return CreatedSecret(stored.id, f"{account.organization_id}:{account.id}", stored.expires_at, secret.text)


@delete("/service-accounts/{account_id:str}/secrets/{secret_id:str}", summary="Revoke a secret")
async def revoke_secret(request: AccessCall, account_id: FromPath[str], secret_id: FromPath[str]) -> None:
    """Revoke a secret. Access tokens that were issued for it, and the connections opened with them, end within seconds."""
    await request.write(access.revoke_secret, ids.parse("sac", account_id), ids.parse("sec", secret_id))
