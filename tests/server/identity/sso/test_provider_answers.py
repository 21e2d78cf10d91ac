"""What a provider's answer may change, and what it may not: claims that are missing, not verified, too large or no longer enough."""

import json
from typing import Any

import pytest

from terracrew.api.access import Role
from terracrew.api.sso import NewRule, ProviderChange
from terracrew.errors import Invalid
from terracrew.server.db.seam import Tx
from terracrew.server.identity import limits
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import insight, mapping, providers
from terracrew.server.identity.sso.arrivals import REFRESH_SECONDS
from terracrew.server.identity.sso.refresh import SignOnRefresh
from tests.builders.clock import ShiftedClock
from tests.server.application import on_one
from tests.server.dashboard.visitor import visitor
from tests.server.identity.sso.crook import Crook, refused
from tests.server.identity.sso.provider_logins import manager

pytestmark = on_one
DAY_SECONDS = 86_400


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


async def change(crook: Crook, **wanted: Any) -> None:
    server = crook.application.server
    given = ProviderChange(**wanted)
    await providers.change(
        server.db, server.keys, server.identity.sso.trust, manager(crook.application), crook.made.id, given
    )


async def add_rule(crook: Crook, value: str, role: Role = Role.OPERATOR, **more: Any) -> None:
    db = crook.application.server.db
    await providers.add_rule(db, manager(crook.application), crook.made.id, NewRule(value, role, **more))


async def roles(crook: Crook) -> set[str]:
    async def read(tx: Tx) -> set[str]:
        user = await people_store.find_user(tx, "mallory")
        assert user is not None
        return {each.role.value for each in await role_store.roles_of_source(tx, [user.id], crook.made.id)}

    return await crook.application.server.db.read(read)


async def again(crook: Crook, **given: Any) -> Any:
    crook.browser = visitor(crook.application)
    await crook.begin()
    return await crook.come_back(crook.token(**given))


def tokens(crook: Crook, **more: Any) -> None:
    body = json.dumps({"access_token": "a", "token_type": "Bearer"} | more).encode()
    crook.issuer.answers["/token"] = 200, {}, body


async def refresh(crook: Crook) -> None:
    server = crook.application.server
    await SignOnRefresh(server.db, server.keys, server.identity.sso.exchanges).step()


@pytest.mark.feature("P1.rules")
async def test_who_is_not_admitted_any_more_loses_the_roles_at_a_login(crook: Crook) -> None:
    await add_rule(crook, "staff")
    await change(crook, admit_claim="hd", admit_value="example.com")
    assert (await again(crook, groups=["staff"], hd="example.com")).status_code == 303
    assert await roles(crook) == {"operator"}
    refused(await again(crook, groups=["staff"], hd="gone.example.com"), "may log in here")
    assert await roles(crook) == set(), "their API tokens would have the role for two weeks"


@pytest.mark.feature("P1.rules")
async def test_who_is_not_admitted_any_more_loses_session_and_roles_when_the_setting_changes(crook: Crook) -> None:
    """An owner has noticed that the provider lets in too many. Without a refresh token, nobody was asked about again for 12 hours, and
    the roles stayed for two weeks."""
    await add_rule(crook, "staff")
    assert (
        await again(crook, sub="m2", preferred_username="colleague", groups=["staff"], hd="example.com")
    ).status_code == 303
    colleague = crook.browser
    assert (await again(crook, groups=["staff"], hd="gone.example.com")).status_code == 303
    assert await roles(crook) == {"operator"}
    await change(crook, admit_claim="hd", admit_value="example.com")
    assert await roles(crook) == set()
    assert (await crook.browser.get("/dashboard/account")).status_code == 303, "logged out"
    assert (await colleague.get("/dashboard/account")).status_code == 200
    await add_rule(crook, "staff", Role.APPROVER)
    assert await roles(crook) == set()
    refused(await again(crook, groups=["staff"], hd="gone.example.com"), "may log in here")
    who = manager(crook.application)
    seen = await crook.application.server.db.read(lambda tx: insight.logins(tx, who, crook.made.id, "", 10))
    assert [(each.outcome, [role.role for role in each.roles]) for each in seen] == [
        ("refused", []),
        ("in", []),
        ("in", [Role.APPROVER]),
    ], "the page gave those a role who are not let in"
    assert seen[1].notes == (insight.NOT_LET_IN,)


@pytest.mark.feature("P1.refresh")
async def test_who_is_not_admitted_any_more_loses_session_and_roles_at_a_refresh(
    crook: Crook, database_clock: ShiftedClock
) -> None:
    await add_rule(crook, "staff")
    await change(crook, admit_claim="hd", admit_value="example.com")
    tokens(crook, id_token=crook.token(groups=["staff"], hd="example.com"), refresh_token="r")
    assert (await crook.come_back()).status_code == 303
    tokens(crook, id_token=crook.token(groups=["staff"]))
    database_clock.advance(REFRESH_SECONDS + 1)
    await refresh(crook)
    assert (await crook.browser.get("/dashboard/account")).status_code == 303
    assert await roles(crook) == set()


@pytest.mark.feature("P1.refresh")
async def test_a_refresh_without_claims_does_not_keep_old_groups_alive(
    crook: Crook, database_clock: ShiftedClock
) -> None:
    """Not every provider sends an ID token with a refresh. Then nobody knows whether the person is still in the groups of the login."""
    await add_rule(crook, "staff")
    await change(crook, confirm_days=1)
    tokens(crook, id_token=crook.token(groups=["staff"]), refresh_token="r", refresh_expires_in=None)
    assert (await crook.come_back()).status_code == 303
    tokens(crook, id_token=None, refresh_token=None)
    for _ in range(2):
        assert await roles(crook) == {"operator"}
        assert (await crook.browser.get("/dashboard/account")).status_code == 200
        database_clock.advance(DAY_SECONDS / 2 + 1)
        await refresh(crook)
    assert (await crook.browser.get("/dashboard/account")).status_code == 200, "the provider knows the person"
    await refresh(crook)
    assert await roles(crook) == set()


@pytest.mark.feature("P1.rules")
@pytest.mark.parametrize("verified", [False, "false"])
async def test_an_address_that_nobody_has_verified_gives_nothing(crook: Crook, verified: object) -> None:
    await add_rule(crook, "boss@example.com", Role.OWNER, claim="email")
    answer = await again(crook, email="boss@example.com", email_verified=verified)
    assert answer.status_code == 303
    assert await roles(crook) == set()
    assert mapping.values({"email": "a@example.com"}, "email") == ("a@example.com",), "Entra ID does not say"
    await change(crook, admit_claim="/email", admit_value="*@example.com")
    refused(await again(crook, email="x@example.com", email_verified=verified, sub="m2"), "may log in here")
    assert (await again(crook, email="x@example.com", email_verified=True, sub="m2")).status_code == 303


async def test_a_claim_that_everybody_has_admits_nobody_in_particular(crook: Crook) -> None:
    for name in ("iss", "/aud", "exp"):
        with pytest.raises(Invalid, match="everybody has the claim"):
            await change(crook, admit_claim=name, admit_value="x")


@pytest.mark.feature("P1.attacks")
async def test_a_flood_of_failed_logins_pushes_nothing_out_of_sight(crook: Crook) -> None:
    """Anybody can begin a login and come back with an error. Administrators see the last 200 logins."""
    assert (await crook.come_back(crook.token())).status_code == 303
    count = "SELECT count(*) AS found FROM identity_logins"
    for _ in range(limits.ADDRESS.failures + 5):
        await crook.begin()
        refused(await crook.come_back(error="access_denied"), "")
    assert await crook.application.scalar(count) <= limits.ADDRESS.failures + 1
    refused(await again(crook), "oo many failures")
