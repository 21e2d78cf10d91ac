"""Sessions follow what the real provider says afterwards: groups that change, people who go, outages and logouts."""

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.access import Role
from terracrew.server.db.seam import Tx
from terracrew.server.identity.federation.fetching import FETCH_SECONDS
from terracrew.server.identity.people import sessions
from terracrew.server.identity.people import store as people_store
from terracrew.server.identity.sso import sealing, store
from terracrew.server.identity.sso.arrivals import REFRESH_SECONDS, next_refresh
from terracrew.server.identity.sso.refresh import (
    MAX_AT_ONCE,
    MAX_PER_ORGANIZATION,
    OUTAGE_SECONDS,
    RETRY_SECONDS,
    SignOnRefresh,
)
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups.service import ensure_organization
from tests.builders import sign_on_rows
from tests.builders.clock import ShiftedClock
from tests.machine import oidc_issuer
from tests.server.application import on_one, open_application
from tests.server.dashboard.visitor import Visitor, visitor
from tests.server.identity.sso.conftest import GRACE, PEOPLE, SignOn
from tests.server.identity.sso.provider_logins import add_rule, roles_of

SCOPES = "openid profile offline_access"


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


def loop_of(sign_on: SignOn) -> SignOnRefresh:
    server = sign_on.application.server
    return SignOnRefresh(server.db, server.keys, server.identity.sso.exchanges)


async def is_in(browser: Visitor) -> bool:
    return (await browser.get("/dashboard/account")).status_code == 200


@pytest.mark.feature("P1.refresh")
async def test_an_hour_later_the_roles_are_those_of_the_groups_then(
    sign_on: SignOn, database_clock: ShiftedClock
) -> None:
    await sign_on.connect(scopes=SCOPES)
    await add_rule(sign_on, "staff", Role.VIEWER)
    grace, loop = await sign_on.log_in(GRACE), loop_of(sign_on)
    assert await loop.step() == 0
    sign_on.provider.change(PEOPLE | {GRACE: {"preferred_username": "grace", "groups": []}})
    database_clock.advance(REFRESH_SECONDS + 1)
    both = await asyncio.gather(loop.step(), loop_of(sign_on).step())
    assert sum(both) == 1, "two servers ask once"
    assert await roles_of(sign_on, "grace") == set()
    assert await is_in(grace)
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop.step() == 1, "the provider has replaced the refresh token, and the new one works"
    assert await is_in(grace)


@pytest.mark.feature("P1.refresh")
async def test_a_person_who_is_gone_there_is_out_here(sign_on: SignOn, database_clock: ShiftedClock) -> None:
    await sign_on.connect(scopes=SCOPES)
    first, second, loop = await sign_on.log_in(GRACE), await sign_on.log_in(GRACE), loop_of(sign_on)
    sign_on.provider.change({name: each for name, each in PEOPLE.items() if name != GRACE})
    database_clock.advance(REFRESH_SECONDS + 1)
    await loop.step()
    await loop.step()
    assert (await is_in(first), await is_in(second)) == (False, False)


@on_one
@pytest.mark.feature("P1.refresh")
async def test_sessions_outlast_an_outage_for_a_bounded_time_and_roles_end_later(
    sign_on: SignOn, database_clock: ShiftedClock
) -> None:
    await sign_on.connect(scopes=SCOPES, confirm_days=1)
    await add_rule(sign_on, "staff", Role.VIEWER)
    grace, loop = await sign_on.log_in(GRACE), loop_of(sign_on)
    sign_on.provider.register([])  # it answers nobody any more, without saying that the person is gone
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await loop.step() == 1
    assert await is_in(grace)
    assert await loop.step() == 0, "it is asked again only after some minutes"
    database_clock.advance(RETRY_SECONDS + 1)
    assert await loop.step() == 1
    database_clock.advance(OUTAGE_SECONDS)
    await loop.step()
    assert not await is_in(grace)
    assert await roles_of(sign_on, "grace") == {("viewer", "")}
    database_clock.advance(86_400)
    await loop.step()
    assert await roles_of(sign_on, "grace") == set()


@pytest.mark.feature("P1.refresh")
async def test_a_provider_that_takes_its_time_keeps_no_other_organization_waiting(
    database_url: str, memory_path: Path
) -> None:
    """Somebody logged in very often at a provider of their own, which answers late. Meanwhile nobody was asked whether the people of
    another organization still exist."""
    with oidc_issuer.running() as slow, oidc_issuer.running() as honest:
        settings: dict[str, Any] = {"federation_private_issuers": [slow.url, honest.url]}
        async with open_application(database_url, memory_path / "data", **settings) as application:
            server = application.server
            for issuer, name, count in ((slow, "slow", MAX_AT_ONCE + 5), (honest, "honest", 1)):
                issuer.document |= {"token_endpoint": f"{issuer.url}/token"}
                await server.db.write(lambda tx, one=(issuer.url, name, count): due_sessions(tx, server.keys, *one))
            slow.open.clear()
            asking = asyncio.create_task(SignOnRefresh(server.db, server.keys, server.identity.sso.exchanges).run())
            async with asyncio.timeout(FETCH_SECONDS - 1):
                while "/token" not in honest.asked:
                    await asyncio.sleep(0.02)
            claimed = "SELECT count(*) AS found FROM identity_sessions WHERE claimed_until > 0"
            assert await application.scalar(claimed) <= MAX_PER_ORGANIZATION + 1
            asking.cancel()
            await asyncio.wait({asking})


async def due_sessions(tx: Tx, keys: Keyring, issuer: str, name: str, count: int) -> None:
    """Make an organization with a person who has logged in several times, and about whom the provider is asked now."""
    organization = await ensure_organization(tx, name)
    provider = await sign_on_rows.insert_provider(tx, organization.id, name, issuer=issuer)
    user = await people_store.insert_user(tx, organization.id, f"person@{name}", is_system_admin=False)
    person = await store.insert_identity(tx, provider.id, "1", user.id, "test")
    for _ in range(count):
        session = await sessions.start(tx, user)
        sealed = sealing.seal_refresh_token(keys, session.id, "refresh")
        await store.insert_session(tx, session.id, person, "", sealed, tx.now)


def test_a_short_refresh_token_is_used_before_it_ends() -> None:
    assert next_refresh(0, None) == REFRESH_SECONDS
    assert next_refresh(0, 1800) == 900
    assert next_refresh(0, 10) == 60
    assert next_refresh(0, 86_400 * 30) == REFRESH_SECONDS


@on_one
@pytest.mark.feature("P1.logout")
async def test_a_logout_at_the_provider_ends_the_sessions_once(sign_on: SignOn) -> None:
    await sign_on.connect(scopes=SCOPES)
    grace, other = visitor(sign_on.application), await sign_on.log_in(GRACE)
    leave = await sign_on.log_in_and_keep(grace, GRACE)
    assert await is_in(grace)
    await leave()
    sent = await asyncio.to_thread(sign_on.provider.logouts.get, timeout=20)
    assert sent["to"].endswith("/backchannel-logout")
    address, machine = f"/login/sso/{sign_on.id}/backchannel-logout", sign_on.application.stranger()
    answer = await machine.post(address, data={"logout_token": sent["logout"]})
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "no-store")
    assert (await is_in(grace), await is_in(other)) == (False, True), "the session that it names, and no other one"
    answer = await machine.post(address, data={"logout_token": sent["logout"]})
    assert (answer.status_code, "used before" in answer.text) == (400, True)
    for wrong in ("", "x.y.z", _changed(sent["logout"])):
        assert (await machine.post(address, data={"logout_token": wrong})).status_code == 400
    assert await is_in(other)


@on_one
@pytest.mark.feature("P1.logout")
async def test_a_logout_page_ends_the_session_that_it_names(sign_on: SignOn) -> None:
    await sign_on.connect(scopes=SCOPES)
    grace = await sign_on.log_in(GRACE)
    sid = await sign_on.application.scalar("SELECT sid FROM identity_sessions")
    assert sid
    address, frame = f"/login/sso/{sign_on.id}/frontchannel-logout", sign_on.application.stranger()
    for wrong in ({"iss": "https://other.example.com", "sid": sid}, {"iss": sign_on.provider.url, "sid": ""}):
        assert (await frame.get(address, params=wrong)).status_code == 400
    assert (await frame.get(address, params={"iss": sign_on.provider.url, "sid": "another"})).status_code == 200
    assert await is_in(grace)
    assert (await frame.get(address, params={"iss": sign_on.provider.url, "sid": sid})).status_code == 200
    assert not await is_in(grace)


@on_one
async def test_disabling_and_deleting_a_provider_end_its_sessions_and_roles(sign_on: SignOn) -> None:
    await sign_on.connect(scopes=SCOPES)
    await add_rule(sign_on, "staff", Role.VIEWER)
    grace = await sign_on.log_in(GRACE)
    await sign_on.change(is_enabled=False)
    assert not await is_in(grace)
    assert (await visitor(sign_on.application).get(f"/login/sso/{sign_on.id}")).status_code == 403
    await sign_on.change(is_enabled=True)
    grace = await sign_on.log_in(GRACE)
    await sign_on.delete()
    assert not await is_in(grace)
    assert await roles_of(sign_on, "grace") == set()


def _changed(token: str) -> str:
    """Another person's logout under the same signature."""
    header, payload, signature = token.split(".")
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    text = base64.urlsafe_b64encode(json.dumps(claims | {"jti": "new"}).encode()).decode().rstrip("=")
    return f"{header}.{text}.{signature}"
