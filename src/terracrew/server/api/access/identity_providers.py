"""Single sign-on: the providers of an organization, their rules, their people, and what the last logins brought."""

from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew import ids
from terracrew.api.pages import Page
from terracrew.api.sso import (
    DryRun,
    DryRunRule,
    LinkedIdentity,
    LinkIdentity,
    LoginPolicy,
    LoginSeen,
    MappingRule,
    NewProvider,
    NewRule,
    ProviderChange,
    ProviderDetails,
)
from terracrew.server.api.context import AccessCall
from terracrew.server.http.request import identity_of
from terracrew.server.identity.sso import insight, policy, providers
from terracrew.server.paging import page

MAX_LOGINS = 100
MAX_PEOPLE = 200


@get("/identity-providers", summary="List the providers of single sign-on")
async def list_providers(request: AccessCall) -> Page[ProviderDetails]:
    """List the providers of the organization, with the addresses that their own settings need. Secrets are never shown."""
    return Page(await request.read(providers.listing, identity_of(request).sso.trust))


@post("/identity-providers", summary="Create a provider of single sign-on")
async def create_provider(request: AccessCall, data: JSONBody[NewProvider]) -> ProviderDetails:
    """Create a provider of OpenID Connect. It needs a person who is logged in, because whoever controls a provider can log in as others.

    The answer has the redirect address that the provider has to know.
    """
    sso = identity_of(request).sso
    return await providers.create(sso.db, sso.keys, sso.trust, request.user, data)


@get("/identity-providers/{provider:str}", summary="Show a provider of single sign-on")
async def show_provider(request: AccessCall, provider: FromPath[str]) -> ProviderDetails:
    """Show a provider, named by its id or its name."""
    return await request.read(providers.show, provider, identity_of(request).sso.trust)


@patch("/identity-providers/{provider:str}", summary="Change a provider of single sign-on")
async def change_provider(
    request: AccessCall, provider: FromPath[str], data: JSONBody[ProviderChange]
) -> ProviderDetails:
    """Change a provider. If it is disabled, the sessions that began there end, as do those of people whom it lets in no more."""
    sso = identity_of(request).sso
    return await providers.change(sso.db, sso.keys, sso.trust, request.user, provider, data)


@delete("/identity-providers/{provider:str}", summary="Delete a provider of single sign-on")
async def delete_provider(request: AccessCall, provider: FromPath[str]) -> None:
    """Delete a provider with its rules, the roles that they gave, and the sessions that began there. The users stay."""
    await request.write(providers.delete, provider)


@get("/identity-providers/{provider:str}/rules", summary="List the rules of a provider")
async def list_rules(request: AccessCall, provider: FromPath[str]) -> Page[MappingRule]:
    """List the rules that turn claims into roles."""
    return Page(await request.read(providers.rules, provider))


@post("/identity-providers/{provider:str}/rules", summary="Add a rule to a provider")
async def add_rule(request: AccessCall, provider: FromPath[str], data: JSONBody[NewRule]) -> MappingRule:
    """Add a rule. The roles that follow from it are given at once to everybody whose claims are known."""
    return await providers.add_rule(identity_of(request).db, request.user, provider, data)


@delete("/identity-providers/{provider:str}/rules/{mapping_rule:str}", summary="Remove a rule from a provider")
async def remove_rule(request: AccessCall, provider: FromPath[str], mapping_rule: FromPath[str]) -> None:
    """Remove a rule. The roles that followed from it are taken away at once."""
    await providers.remove_rule(identity_of(request).db, request.user, provider, ids.parse("irl", mapping_rule))


@post("/identity-providers/{provider:str}/dry-run", status_code=200, summary="Try a rule without changing anything")
async def dry_run(request: AccessCall, provider: FromPath[str], data: JSONBody[DryRunRule]) -> DryRun:
    """Say whose roles a new rule, another one in the place of a rule, or its removal would change, among the people who logged in last."""
    return await request.read(insight.dry_run, provider, data)


@get("/identity-providers/{provider:str}/logins", summary="List the last logins at a provider")
async def list_logins(
    request: AccessCall, provider: FromPath[str], before: FromQuery[str] = "", limit: FromQuery[int] = 20
) -> Page[LoginSeen]:
    """List the last logins, the newest first, also those that were refused: with the claims that arrived, the rules that match now
    and the roles that follow. `before` is the id of the last login that was read. Values that look like secrets are not kept.
    """
    count = max(1, min(limit, MAX_LOGINS))
    return Page(await request.read(insight.logins, provider, before, count))


@get("/identity-providers/{provider:str}/people", summary="List the people of a provider")
async def list_people(
    request: AccessCall, provider: FromPath[str], after: FromQuery[str | None] = None
) -> Page[LinkedIdentity]:
    """List the people of a provider who are users here."""
    return page(await request.read(providers.people, provider, after, MAX_PEOPLE + 1), MAX_PEOPLE)


@post("/identity-providers/{provider:str}/people", summary="Link a person of a provider to a user")
async def link_person(request: AccessCall, provider: FromPath[str], data: JSONBody[LinkIdentity]) -> LinkedIdentity:
    """Link a person, by the `sub` of the provider, to a user who exists. It takes what the reset of this user takes."""
    return await request.write(providers.link, provider, data.subject, data.user)


@delete("/identity-providers/{provider:str}/people/{person:str}", summary="Remove the link of a person to a user")
async def unlink_person(request: AccessCall, provider: FromPath[str], person: FromPath[str]) -> None:
    """Remove the link, with the sessions and the roles that came from it. The user stays."""
    await request.write(providers.unlink, provider, ids.parse("iid", person))


@get("/login-policy", summary="Show how people of the organization log in")
async def show_policy(request: AccessCall) -> LoginPolicy:
    """Show whether people of the organization log in by single sign-on only."""
    return await request.read(policy.show)


@patch("/login-policy", summary="Decide how people of the organization log in")
async def change_policy(request: AccessCall, data: JSONBody[LoginPolicy]) -> LoginPolicy:
    """Decide whether people log in by single sign-on only. Local administrators still log in with their passwords, and there must be
    one: an administrator of the server, or an owner of the organization by a person's grant without an end.
    """
    return await request.write(policy.change, data)
