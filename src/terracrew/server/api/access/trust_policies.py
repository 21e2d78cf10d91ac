"""Trust policies of service accounts: which tokens of other issuers stand for them."""

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from terracrew import ids
from terracrew.api.access import NewPolicy, TrustPolicy
from terracrew.api.pages import Page
from terracrew.server.api.context import AccessCall
from terracrew.server.http.request import identity_of, tree_path
from terracrew.server.identity.federation import service


@get("/service-accounts/{account_id:str}/trust-policies", summary="List the trust policies of a service account")
async def list_policies(request: AccessCall, account_id: FromPath[str]) -> Page[TrustPolicy]:
    """List which tokens of other issuers stand for a service account, named by its id or its path."""
    return Page(await request.read(service.policies, tree_path(account_id)))


@post("/service-accounts/{account_id:str}/trust-policies", summary="Add a trust policy to a service account")
async def add_policy(request: AccessCall, account_id: FromPath[str], data: JSONBody[NewPolicy]) -> TrustPolicy:
    """Let tokens of an issuer stand for a service account if their audience and claims match. An account has up to ten policies.

    An audience or claim is exact, or a pattern with `*` and `?`, but never `*` alone. Without an audience, it is the address of
    this server. An audience without a claim is enough where the issuer does not serve everybody.
    """
    trust = identity_of(request).federation.trust
    return await service.add(request.context.db, request.user, tree_path(account_id), data, trust)


@delete(
    "/service-accounts/{account_id:str}/trust-policies/{policy_id:str}",
    summary="Remove a trust policy from a service account",
)
async def remove_policy(request: AccessCall, account_id: FromPath[str], policy_id: FromPath[str]) -> None:
    """Remove a trust policy. Access tokens that were issued by it, and the connections opened with them, end within seconds."""
    await request.write(service.remove, tree_path(account_id), ids.parse("trp", policy_id))
