"""A real Keycloak as the provider: logins on its own page, and what its administrator changes afterwards."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.identity.sso.arrivals import REFRESH_SECONDS
from terracrew.server.identity.sso.refresh import SignOnRefresh
from terracrew.server.process.serve import bind, serve
from tests.builders.clock import ShiftedClock
from tests.e2e.system import free_port
from tests.machine import keycloak_realm, platforms
from tests.machine.keycloak_realm import KeycloakRealm
from tests.server.application import Application, on_one, open_application
from tests.server.dashboard.visitor import Visitor, visitor
from tests.server.identity.sso.provider_logins import (
    PASSWORD,
    ProviderLogins,
    add_rule,
    at_provider,
    provider_browser,
    roles_of,
)

pytestmark = pytest.mark.platform("keycloak")
OFFLINE = "openid profile offline_access"


class KeycloakSignOn(ProviderLogins):
    """An application on a socket, which Keycloak can reach, and a realm."""

    def __init__(self, application: Application, realm: KeycloakRealm) -> None:
        super().__init__(application, realm)
        self.realm = realm
        server = application.server
        self.refresh = SignOnRefresh(server.db, server.keys, server.identity.sso.exchanges)


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


@pytest.fixture(scope="module")
def all_realm() -> Iterator[KeycloakRealm]:
    """One realm for all tests; each begins without people."""
    with keycloak_realm.made(platforms.need("keycloak"), PASSWORD) as found:
        yield found


@pytest.fixture
def realm(all_realm: KeycloakRealm) -> KeycloakRealm:
    all_realm.begin()
    return all_realm


@pytest.fixture
async def sign_on(
    database_url: str, memory_path: Path, database_clock: ShiftedClock, realm: KeycloakRealm
) -> AsyncIterator[KeycloakSignOn]:
    settings = {"port": free_port(), "federation_private_issuers": [realm.url]}
    async with (
        open_application(database_url, memory_path / "data", clock=database_clock, **settings) as application,
        served(application),
    ):
        yield KeycloakSignOn(application, realm)


@asynccontextmanager
async def served(application: Application) -> AsyncGenerator[None]:
    """Answer at the address that the server's settings say, where Keycloak sends its logout tokens."""
    server = application.server
    started = asyncio.Event()
    serving = asyncio.create_task(serve(server, bind(server.settings), started, application.app))
    await asyncio.wait_for(started.wait(), 20)
    yield
    server.closing.set()
    await asyncio.wait_for(serving, 20)


async def is_in(browser: Visitor) -> bool:
    return (await browser.get("/dashboard/account")).status_code == 200


@pytest.mark.feature("P1.login")
async def test_a_first_login_on_the_page_of_keycloak_makes_a_user_with_the_roles_of_the_groups(
    sign_on: KeycloakSignOn,
) -> None:
    ada = sign_on.realm.add_person("ada.lovelace", "platform", "staff")
    sign_on.realm.add_person("grace", "team-data-ops", "staff")
    sign_on.realm.add_person("admin")
    await sign_on.connect()
    await sign_on.application.admin.made("/api/v1/groups", {"path": "data"})
    await add_rule(sign_on, "platform", Role.OWNER)
    await add_rule(sign_on, "team-*-ops", Role.OPERATOR, "data", is_pattern=True)
    await add_rule(sign_on, "staff", Role.VIEWER)
    first, second, namesake = [await sign_on.log_in(name) for name in ("ada.lovelace", "grace", "admin")]
    assert "ada.lovelace" in await first.see("/dashboard/account")
    assert await roles_of(sign_on, "ada.lovelace") == {("owner", "")}
    assert await roles_of(sign_on, "grace") == {("viewer", ""), ("operator", "data")}
    assert "data" in await second.see("/dashboard/modules")
    assert await roles_of(sign_on, "admin") == set()
    assert "admin-2" in await namesake.see("/dashboard/account"), "a name makes nobody another person"
    assert await sign_on.application.scalar("SELECT subject FROM identities WHERE subject = :id", id=ada) == ada


@pytest.mark.feature("P1.refresh")
async def test_who_leaves_a_group_there_loses_its_role_within_the_hour(
    sign_on: KeycloakSignOn, database_clock: ShiftedClock
) -> None:
    grace = sign_on.realm.add_person("grace", "team-data-ops", "staff")
    await sign_on.connect()
    await add_rule(sign_on, "team-*", Role.OPERATOR, is_pattern=True)
    await add_rule(sign_on, "staff", Role.VIEWER)
    browser = await sign_on.log_in("grace")
    assert await roles_of(sign_on, "grace") == {("operator", "")}
    for group, left in (("team-data-ops", {("viewer", "")}), ("staff", set[tuple[str, str]]())):
        sign_on.realm.remove_from_group(grace, group)
        assert await sign_on.refresh.step() == 0, "it is not asked before an hour has passed"
        database_clock.advance(REFRESH_SECONDS + 1)
        assert await sign_on.refresh.step() == 1
        assert await roles_of(sign_on, "grace") == left
        assert await is_in(browser), "the realm replaces each refresh token, and the new one works"


@pytest.mark.feature("P1.refresh")
@pytest.mark.parametrize("what", ["disabled", "deleted"])
async def test_who_is_disabled_or_deleted_there_is_out_within_the_hour(
    sign_on: KeycloakSignOn, database_clock: ShiftedClock, what: str
) -> None:
    grace = sign_on.realm.add_person("grace", "staff")
    sign_on.realm.add_person("other")
    await sign_on.connect()
    first, second, other = [await sign_on.log_in(name) for name in ("grace", "grace", "other")]
    (sign_on.realm.disable if what == "disabled" else sign_on.realm.delete)(grace)
    database_clock.advance(REFRESH_SECONDS + 1)
    while await sign_on.refresh.step():
        pass
    assert [await is_in(each) for each in (first, second, other)] == [False, False, True]
    with pytest.raises(AssertionError, match="did not send the browser back"):
        await sign_on.log_in("grace")


@pytest.mark.feature("P1.logout")
async def test_a_logout_by_the_administrator_of_keycloak_ends_the_sessions_here_at_once(
    sign_on: KeycloakSignOn,
) -> None:
    grace = sign_on.realm.add_person("grace", "staff")
    sign_on.realm.add_person("other")
    await sign_on.connect()
    first, second, third, other = [await sign_on.log_in(name) for name in ("grace", "grace", "grace", "other")]
    await asyncio.to_thread(sign_on.realm.end_session, sign_on.realm.sessions(grace)[0])
    still_in = [await is_in(each) for each in (first, second, third, other)]
    assert (sum(still_in[:3]), still_in[3]) == (2, True), (
        "one ends: Keycloak tells the seconds of their starts, so not which"
    )
    await asyncio.to_thread(sign_on.realm.log_out, grace)
    assert [await is_in(each) for each in (first, second, third, other)] == [False, False, False, True]


@on_one
@pytest.mark.feature("P1.logout", "P1.refresh")
async def test_an_offline_session_that_was_logged_out_there_ends_within_the_hour(
    sign_on: KeycloakSignOn, database_clock: ShiftedClock
) -> None:
    """Keycloak tells nobody of the end of such a session, and refuses its token from then on."""
    grace = sign_on.realm.add_person("grace", "staff")
    await sign_on.connect(scopes=OFFLINE)
    first = await sign_on.log_in("grace")
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await sign_on.refresh.step() == 1
    assert await is_in(first)
    await asyncio.sleep(
        1.1
    )  # Keycloak refuses tokens of the seconds before the logout, and not those of the same second
    await asyncio.to_thread(sign_on.realm.log_out, grace)
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await sign_on.refresh.step() == 1
    assert not await is_in(first)


@on_one
@pytest.mark.feature("P1.logout")
async def test_a_logout_token_without_a_session_ends_all_sessions_of_the_person(sign_on: KeycloakSignOn) -> None:
    grace = sign_on.realm.add_person("grace")
    sign_on.realm.add_person("other")
    await sign_on.connect()
    sign_on.realm.change_client("crew", {"backchannel.logout.session.required": "false"})
    first, second, other = [await sign_on.log_in(name) for name in ("grace", "grace", "other")]
    await asyncio.to_thread(sign_on.realm.end_session, sign_on.realm.sessions(grace)[0])
    assert [await is_in(each) for each in (first, second, other)] == [False, False, True]


@pytest.mark.feature("P1.refresh")
async def test_new_keys_of_the_realm_are_found_without_help(
    sign_on: KeycloakSignOn, database_clock: ShiftedClock
) -> None:
    grace = sign_on.realm.add_person("grace")
    await sign_on.connect()
    first = await sign_on.log_in("grace")
    sign_on.realm.replace_keys()
    second = await sign_on.log_in("grace")
    sign_on.realm.replace_keys()
    database_clock.advance(REFRESH_SECONDS + 1)
    assert await sign_on.refresh.step() == 2
    assert await sign_on.application.scalar("SELECT count(*) FROM identity_sessions WHERE failure <> ''") == 0
    await asyncio.to_thread(sign_on.realm.log_out, grace)
    assert [await is_in(each) for each in (first, second)] == [False, False]


@on_one
@pytest.mark.feature("P1.login")
@pytest.mark.parametrize("algorithm", ["ES256", "ES512", "EdDSA"])
async def test_a_token_is_accepted_whose_key_keycloak_has_made_for_it(sign_on: KeycloakSignOn, algorithm: str) -> None:
    sign_on.realm.add_person("grace")
    await sign_on.connect()
    sign_on.realm.change_client("crew", {"id.token.signed.response.alg": algorithm})
    assert await is_in(await sign_on.log_in("grace"))


@on_one
@pytest.mark.feature("P1.attacks")
async def test_tokens_signed_with_a_shared_secret_are_refused(sign_on: KeycloakSignOn) -> None:
    sign_on.realm.add_person("grace")
    await sign_on.connect()
    sign_on.realm.change_client("crew", {"id.token.signed.response.alg": "HS256"})
    answer = await sign_on.try_login(visitor(sign_on.application), "grace")
    assert (answer.status_code, "algorithm is not accepted" in answer.text) == (403, True)


@on_one
@pytest.mark.feature("P1.attacks")
async def test_a_code_of_keycloak_is_worth_nothing_in_another_browser_and_a_second_time(
    sign_on: KeycloakSignOn,
) -> None:
    sign_on.realm.add_person("grace")
    await sign_on.connect()
    victim, thief = visitor(sign_on.application), visitor(sign_on.application)
    location = await at_provider(await sign_on.asked(victim), "grace")
    await sign_on.asked(thief)
    assert (await sign_on.come_back(thief, location)).status_code == 403
    assert (await sign_on.come_back(victim, location)).status_code == 303
    assert (await sign_on.come_back(victim, location)).status_code == 403
    assert await is_in(victim)
    assert not await is_in(thief)


@on_one
@pytest.mark.feature("P1.login")
async def test_a_wrong_secret_of_the_client_is_said_in_words(sign_on: KeycloakSignOn) -> None:
    sign_on.realm.add_person("grace")
    await sign_on.connect()
    await sign_on.change(client_secret="another secret")
    answer = await sign_on.try_login(visitor(sign_on.application), "grace")
    assert (answer.status_code, "unauthorized_client" in answer.text) == (403, True)


@on_one
@pytest.mark.feature("P1.login")
async def test_who_is_logged_in_there_already_comes_in_without_a_password(sign_on: KeycloakSignOn) -> None:
    sign_on.realm.add_person("grace")
    await sign_on.connect()
    async with provider_browser(sign_on.realm.url) as there:
        await at_provider(await sign_on.asked(visitor(sign_on.application)), "grace", there)
        again = visitor(sign_on.application)
        answer: httpx.Response = await there.get(await sign_on.asked(again))
        assert answer.is_redirect, answer.text
        assert (await sign_on.come_back(again, answer.headers["Location"])).status_code == 303
    assert await is_in(again)
