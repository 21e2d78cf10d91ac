"""A login in a browser ends in time, and no other site can use it."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from terracrew.api.access import Role
from terracrew.server.identity.people import sessions
from terracrew.server.identity.people.sessions import Session
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import change_users
from tests.server.identity.identity_server import URL, IdentityServer

SESSION = Session("ses_1", "usr_1", "tcd_secret", None)  # type: ignore[arg-type]


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites() -> None:
    header = sessions.cookie(SESSION, secure=True).to_header(header="")
    assert "__Host-terracrew_session=tcd_secret" in header
    assert all(word in header for word in ("HttpOnly", "SameSite=lax", "Secure", "Path=/"))
    assert "Domain" not in header
    plain = sessions.cookie(SESSION, secure=False).to_header(header="")
    assert plain.startswith("terracrew_session=")
    assert "Secure" not in plain
    assert "tcd_secret" not in repr(SESSION)


async def browser(server: IdentityServer, name: str = "vera") -> tuple[httpx.AsyncClient, str]:
    cookie, csrf = await server.login(await server.user(name, Role.VIEWER))
    return server.client(cookies={sessions.COOKIE: cookie}), csrf


async def test_a_session_reads_with_its_cookie_alone(server: IdentityServer) -> None:
    client, _ = await browser(server)
    assert (await client.get("/api/v1/me")).json()["name"] == "vera"
    assert (await client.get("/anybody")).text == "vera"
    async with server.client(cookies={sessions.COOKIE: "tcd_" + "x" * 43}) as stranger:
        assert (await stranger.get("/api/v1/me")).status_code == 401
        assert (await stranger.get("/anybody")).text == "nobody"


async def test_a_change_by_cookie_needs_the_sessions_own_csrf_token(server: IdentityServer) -> None:
    client, csrf = await browser(server)
    _, foreign = await browser(server, "mallory")
    for given in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": foreign}, {"X-CSRF-Token": "é".encode("latin-1")}):
        answer = await client.delete("/thing", headers=given)
        assert answer.status_code == 403
    assert (await client.delete("/thing", headers={"X-CSRF-Token": csrf})).status_code == 204


async def test_a_form_may_carry_the_csrf_token_and_its_handler_still_gets_the_form(server: IdentityServer) -> None:
    client, csrf = await browser(server)
    assert (await client.post("/form", data={"a": "1"})).status_code == 403
    assert (await client.post("/form", data={"a": "1", "_csrf": "x"})).status_code == 403
    answer = await client.post("/form", data={"a": "1", "_csrf": csrf})
    assert (answer.status_code, answer.json()) == (201, {"a": "1"})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Origin": URL}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 204),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": f"{URL}.evil.test"}, 403),
        ({"Origin": URL}, 204),
        ({"Origin": "http://localhost:7400", "Host": "localhost:7400"}, 204),
    ],
)
async def test_a_change_that_another_site_asked_for_is_refused_even_with_the_token(
    server: IdentityServer, headers: dict[str, str], status: int
) -> None:
    client, csrf = await browser(server)
    assert (await client.delete("/thing", headers={**headers, "X-CSRF-Token": csrf})).status_code == status
    public = await client.post("/anybody", headers=headers)
    assert public.status_code == (403 if status == 403 else 201), "nor does another site log anybody in"


async def test_a_public_change_acts_for_no_session(server: IdentityServer) -> None:
    client, _ = await browser(server)
    assert (await client.post("/anybody")).text == "nobody"


async def test_a_bearer_token_needs_no_csrf_token_and_goes_before_the_cookie(server: IdentityServer) -> None:
    client, _ = await browser(server)
    token = await server.token(await server.user("script"))
    foreign = {"Authorization": f"Bearer {token}", "Origin": "https://elsewhere.test"}
    assert (await client.delete("/thing", headers=foreign)).status_code == 204
    assert (await client.get("/api/v1/me", headers=foreign)).json()["name"] == "script"
    answer = await client.get("/api/v1/me", headers={"Authorization": "Bearer nonsense"})
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")


async def test_without_anything_only_public_handlers_answer(server: IdentityServer) -> None:
    async with server.client() as client:
        assert (await client.get("/anybody")).text == "nobody"
        for path in ("/api/v1/me", "/api/v1/audit", "/api/v1/users"):
            answer = await client.get(path)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
        assert (await client.delete("/thing")).status_code == 401


@pytest.mark.parametrize(
    "end",
    [
        lambda server: server.run("DELETE FROM sessions"),
        lambda server: change_users(server.db, is_disabled=True),
    ],
    ids=["logout", "disabled"],
)
async def test_a_session_ends_by_logout_and_with_its_user(
    server: IdentityServer, end: Callable[[IdentityServer], Awaitable[None]]
) -> None:
    client, _ = await browser(server)
    assert (await client.get("/api/v1/me")).status_code == 200
    await end(server)
    assert (await client.get("/api/v1/me")).status_code == 401


async def test_a_session_ends_when_it_rests_for_a_day(server: IdentityServer, clock: ShiftedClock) -> None:
    client, _ = await browser(server)
    assert (await client.get("/api/v1/me")).status_code == 200
    clock.advance(sessions.IDLE_SECONDS)
    assert (await client.get("/api/v1/me")).status_code == 401


async def test_a_session_ends_after_two_weeks_even_if_it_is_used(server: IdentityServer, clock: ShiftedClock) -> None:
    client, _ = await browser(server)
    for _ in range(int(sessions.SESSION_SECONDS / 80_000)):
        clock.advance(80_000)
        assert (await client.get("/api/v1/me")).status_code == 200
    clock.advance(80_000)
    assert (await client.get("/api/v1/me")).status_code == 401


async def test_a_session_that_is_used_stays(server: IdentityServer, clock: ShiftedClock) -> None:
    client, _ = await browser(server)
    clock.advance(80_000)
    assert (await client.get("/api/v1/me")).status_code == 200
    clock.advance(80_000)
    assert (await client.get("/api/v1/me")).status_code == 200
