"""What one organization can bring costs the others nothing: very many groups, patterns, and large answers of its provider."""

import json
from datetime import UTC, datetime

import msgspec
import pytest

from terracrew.api.access import Role
from terracrew.api.sso import DryRunRule, NewRule
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import Issuers
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import insight, mapping, providers, store
from terracrew.server.identity.sso.exchanges import MAX_REFRESH_TOKEN_CHARACTERS, Exchanges
from terracrew.server.identity.sso.model import SignInFailed, StoredProvider
from tests.machine import oidc_issuer
from tests.machine.oidc_issuer import Issuer
from tests.server.application import on_one
from tests.server.identity.sso.crook import Crook, refused
from tests.server.identity.sso.provider_logins import manager

GROUPS = [f"a-group-of-the-company-whose-name-is-rather-long-{number:04d}" for number in range(mapping.MAX_VALUES)]
PEOPLE = 10
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@on_one
@pytest.mark.feature("P1.page", "P1.claims")
async def test_very_many_groups_and_patterns_stop_nobody_else(crook: Crook) -> None:
    """Twenty people with a thousand groups each, and two hundred patterns: a page of their logins stopped the server for six seconds."""
    db, who, provider = crook.application.server.db, manager(crook.application), crook.made

    async def fill(tx: Tx) -> None:
        for number in range(providers.MAX_PATTERNS):
            rule, group_id, module_id = await providers.checked_rule(
                tx, who, NewRule(f"*z{number}", Role.VIEWER, "", is_pattern=True)
            )
            await store.insert_rule(tx, provider.id, rule, group_id, module_id, who.id)
        for number in range(PEOPLE):
            user = await people_store.insert_user(tx, provider.organization_id, f"p{number}", is_system_admin=False)
            identity = await store.insert_identity(tx, provider.id, f"p{number}", user.id, who.id)
            await store.save_claims(tx, identity.id, {"groups": GROUPS})
            await store.insert_login(tx, provider.id, f"p{number}", user.id, "in", "", {"groups": GROUPS}, "")

    await db.write(fill)
    seen = await db.read(lambda tx: insight.logins(tx, who, provider.id, "", 100))
    evaluated = insight.MAX_COMPARISONS // (providers.MAX_PATTERNS * len(GROUPS))
    assert [insight.NOT_EVALUATED in each.notes for each in seen] == [False] * evaluated + [True] * (PEOPLE - evaluated)
    tried = await db.read(
        lambda tx: insight.dry_run(
            tx, who, provider.id, DryRunRule("", NewRule("a-*", Role.OWNER, "", is_pattern=True))
        )
    )
    assert 0 < tried.examined < PEOPLE
    assert len(tried.people) == tried.examined
    with pytest.raises(Conflict, match="rules with a pattern"):
        await providers.add_rule(db, who, provider.id, NewRule("b-*", Role.VIEWER, "", is_pattern=True))
    await providers.add_rule(db, who, provider.id, NewRule("b", Role.VIEWER, ""))


@pytest.mark.feature("P1.attacks")
async def test_what_no_database_takes_is_no_session_and_no_error(crook: Crook) -> None:
    """A provider sent a NUL in the id of its session, which PostgreSQL refuses: the login was an internal error."""
    assert (await crook.come_back(crook.token(sid="a\0b"))).status_code == 303
    event: dict[str, dict[str, str]] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    path = f"/login/sso/{crook.made.id}"
    for claims in ({"sid": "a\0b"}, {"sub": "m\0", "sid": None}, {"sid": "s" * 300}):
        text = crook.issuer.token("crew", events=event, jti="j", **claims)
        answer = await crook.browser.post(f"{path}/backchannel-logout", data={"logout_token": text})
        assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    given = {"iss": crook.issuer.url, "sid": "a\0b"}
    assert (await crook.browser.get(f"{path}/frontchannel-logout", params=given)).status_code == 400
    crook.browser.cookies.clear()
    await crook.begin()
    refused(await crook.come_back(error="a\0", error_description="b\0"), "says: an error")


@on_one
@pytest.mark.feature("P1.attacks")
async def test_a_refresh_token_that_is_too_long_is_not_stored(crook: Crook) -> None:
    body = {"id_token": crook.token(), "access_token": "a", "refresh_token": "r" * (MAX_REFRESH_TOKEN_CHARACTERS + 1)}
    crook.issuer.answers["/token"] = 200, {}, json.dumps(body).encode()
    refused(await crook.come_back(), "refresh token is too long")


@pytest.mark.feature("P1.attacks")
async def test_a_provider_of_a_tenant_leads_no_request_to_a_private_issuer(issuer: Issuer) -> None:
    """The server may reach the private issuer of one organization. The document of another one's provider named it, too."""
    with oidc_issuer.running() as private:
        private_origin = rules.origin(private.url)
        known = Issuers(Fetcher(frozenset({private_origin, rules.origin(issuer.url)})))
        exchanges = Exchanges(Fetcher(frozenset({private_origin})), known)
        issuer.document |= {"token_endpoint": f"{private.url}/admin", "userinfo_endpoint": f"{private.url}/admin"}
        provider = StoredProvider(
            id="idp_1",
            organization_id="org_1",
            name="Evil",
            issuer=issuer.url,
            client_id="crew",
            created_by="",
            created_at=NOW,
        )
        for name in ("token_endpoint", "userinfo_endpoint"):
            with pytest.raises(SignInFailed, match="is not a public https address"):
                await exchanges.endpoint(provider, name)
        own = msgspec.structs.replace(provider, issuer=private.url)
        private.document |= {"token_endpoint": f"{private.url}/token"}
        assert await exchanges.endpoint(own, "token_endpoint") == f"{private.url}/token"
        assert "/admin" not in private.asked
