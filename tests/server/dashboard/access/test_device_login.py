"""`terracrew login` on a machine without a browser: a person answers on another one, and nobody else gets or gives the token."""

import re
from typing import Any

import httpx
import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service as people
from terracrew.server.identity.terminal_logins import devices, store
from terracrew.server.secrets import credentials
from tests.builders.clock import ShiftedClock
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import Visitor, logged_in

PAGE, BEGIN, EXCHANGE = "/dashboard/device", "/connect/device", "/connect/token"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"
MACHINE = "ada@builder"


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


async def begin(terminal: httpx.AsyncClient, machine: str = MACHINE) -> dict[str, Any]:
    answer = await terminal.post(BEGIN, data={"client_id": "terracrew-cli", "machine": machine})
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.json()


async def poll(terminal: httpx.AsyncClient, device_code: str, client_id: str = "terracrew-cli") -> httpx.Response:
    form = {"grant_type": GRANT, "client_id": client_id, "device_code": device_code}
    return await terminal.post(EXCHANGE, data=form)


async def answered(browser: Visitor, code: str, decision: str, **fields: str) -> httpx.Response:
    await browser.see(PAGE)
    given = {"name": f"terracrew on {MACHINE}", "days": "90"} | fields
    return await browser.submit(PAGE, code=code, decision=decision, **given)


async def is_accepted(application: Application, token: str) -> bool:
    answer = await application.stranger().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code == 200


async def test_a_person_answers_on_another_machine_and_the_terminal_gets_a_token_that_can_be_revoked(
    application: Application,
) -> None:
    terminal, browser = application.stranger("192.0.2.44"), await logged_in(application)
    begun = await begin(terminal)
    assert re.fullmatch(f"[{devices.LETTERS}]{{4}}-[{devices.LETTERS}]{{4}}", begun["user_code"])
    assert (begun["expires_in"], begun["interval"]) == (600, 5)
    assert begun["verification_uri"].endswith(PAGE), "without the code: a link alone must not lead to the question"
    pending = await poll(terminal, begun["device_code"])
    assert (pending.status_code, pending.json()["error"]) == (400, "authorization_pending")
    await browser.see(PAGE)
    typed = begun["user_code"].lower().replace("-", " ")
    question = (await browser.submit(PAGE, code=typed)).text
    for shown in (MACHINE, "192.0.2.44", "everything that you may do", f'value="terracrew on {MACHINE}"'):
        assert shown in question
    assert "is logged in" in (await answered(browser, typed, "allow")).text
    given = (await poll(terminal, begun["device_code"])).json()
    assert (given["token_type"], given["expires_in"]) == ("bearer", 90 * 86_400)
    assert await is_accepted(application, given["access_token"])
    page = await browser.see("/dashboard/account")
    assert "by terracrew login" in page
    revoked = await browser.submit(f"/dashboard/account/tokens/{given['token_id']}/revoke")
    assert revoked.status_code == 303
    assert not await is_accepted(application, given["access_token"])
    entries = await application.server.db.read(
        lambda tx: tx.all("SELECT action, details FROM audit WHERE action LIKE 'token.%' ORDER BY id")
    )
    assert [each["action"] for each in entries[-3:]] == ["token.allow", "token.create", "token.revoke"]
    assert MACHINE in entries[-3]["details"]
    rows = await application.server.db.read(lambda tx: tx.all("SELECT * FROM device_logins"))
    for secret in (
        begun["device_code"],
        begun["user_code"],
        begun["user_code"].replace("-", ""),
        given["access_token"],
    ):
        assert secret not in f"{entries}{rows}"


async def test_a_refusal_reaches_the_terminal_and_the_audit_log(application: Application) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    begun = await begin(terminal)
    assert "was denied" in (await answered(browser, begun["user_code"], "deny", name="", days="")).text
    assert (await poll(terminal, begun["device_code"])).json()["error"] == "access_denied"
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'token.deny'") == 1
    assert await application.scalar("SELECT count(*) FROM api_tokens WHERE is_cli_login") == 0


async def test_only_the_first_answer_counts(application: Application) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    await application.person("priya")
    other = await logged_in(application, "priya")
    begun = await begin(terminal)
    assert (await answered(browser, begun["user_code"], "allow")).status_code == 200
    for again in (browser, other):
        for decision in ("", "allow", "deny"):
            assert (await answered(again, begun["user_code"], decision)).status_code == 404
    token = (await poll(terminal, begun["device_code"])).json()["access_token"]
    me = await application.stranger().get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    assert me.json()["name"] == "admin"


async def test_a_device_code_gives_one_token_and_a_second_use_revokes_it(application: Application) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    begun = await begin(terminal)
    await answered(browser, begun["user_code"], "allow")
    token = (await poll(terminal, begun["device_code"])).json()["access_token"]
    again = await poll(terminal, begun["device_code"])
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert not await is_accepted(application, token)


@on_one
async def test_a_stranger_without_the_device_code_gets_nothing(application: Application) -> None:
    terminal, browser, stranger = (
        application.stranger(),
        await logged_in(application),
        application.stranger("192.0.2.9"),
    )
    begun = await begin(terminal)
    await answered(browser, begun["user_code"], "allow")
    for guess in (begun["user_code"], credentials.new("tca").text, "x", "\0"):
        assert (await poll(stranger, guess)).json()["error"] == "invalid_grant"
    assert (await poll(stranger, begun["device_code"], "terraform-cli")).json()["error"] == "invalid_grant"
    assert (await poll(stranger, "")).json()["error"] == "invalid_request"
    code = {
        "grant_type": "authorization_code",
        "code_verifier": "v" * 43,
        "redirect_uri": "http://127.0.0.1:5000/callback",
    }
    mixed = await stranger.post(EXCHANGE, data=code | {"code": begun["device_code"], "client_id": "terracrew-cli"})
    assert mixed.json()["error"] == "invalid_grant", "a device code is no code of a browser"
    answers = [await poll(stranger, credentials.new("tca").text) for _ in range(102)]
    assert answers[-1].status_code == 429
    assert (await poll(terminal, begun["device_code"])).status_code == 200, "guesses do not use it up"


@on_one
async def test_guesses_of_user_codes_are_limited_and_noted(application: Application) -> None:
    begun, browser = await begin(application.stranger()), await logged_in(application)
    await browser.see(PAGE)
    answers = [await browser.submit(PAGE, code="BCDF-GHJK", decision="allow", name="x") for _ in range(11)]
    assert [each.status_code for each in answers] == [404] * 10 + [429]
    assert int(answers[-1].headers["Retry-After"]) > 0
    assert (await browser.submit(PAGE, code=begun["user_code"])).status_code == 429, "also the right one waits"
    await application.server.identity.failures.step()
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'terminal_login.fail'") == 1


@on_one
async def test_begun_logins_are_limited_for_each_address(application: Application) -> None:
    flood = application.stranger("192.0.2.66")
    answers = [
        (await flood.post(BEGIN, data={"client_id": "terracrew-cli", "machine": "x"})).status_code for _ in range(102)
    ]
    assert (answers[0], answers[-1]) == (200, 429)
    assert "user_code" in await begin(application.stranger("192.0.2.67"))


async def test_codes_expire(application: Application, database_clock: ShiftedClock) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    unanswered, allowed = await begin(terminal), await begin(terminal)
    await answered(browser, allowed["user_code"], "allow")
    database_clock.advance(601)
    assert (await answered(browser, unanswered["user_code"], "allow")).status_code == 404
    for each in (unanswered, allowed):
        assert (await poll(terminal, each["device_code"])).json()["error"] == "expired_token"

    async def prune(tx: Tx) -> int:
        return await store.prune_devices(tx, tx.now, 100)

    assert await application.server.db.write(prune) == 2


async def test_an_allowed_login_ends_with_the_session_that_allowed_it(application: Application) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    begun = await begin(terminal)
    await answered(browser, begun["user_code"], "allow")
    await browser.see("/dashboard/account")
    assert (await browser.submit("/logout")).status_code == 303
    assert (await poll(terminal, begun["device_code"])).json()["error"] == "invalid_grant"


async def test_who_asks_too_often_is_told_to_slow_down(application: Application, database_clock: ShiftedClock) -> None:
    terminal = application.stranger()
    code = (await begin(terminal))["device_code"]
    said: list[str] = []
    for pause in (0, 5, 1, 5, 10, 15):
        database_clock.advance(pause)
        said.append((await poll(terminal, code)).json()["error"])
    pending, slow = "authorization_pending", "slow_down"
    assert said == [pending, pending, slow, slow, slow, slow], "each early request makes the interval longer"
    database_clock.advance(25)
    assert (await poll(terminal, code)).json()["error"] == pending


@on_one
async def test_nobody_but_the_person_in_this_browser_can_answer(application: Application) -> None:
    browser, begun = await logged_in(application), await begin(application.stranger())
    await browser.see(PAGE)
    sent = {"code": begun["user_code"], "decision": "allow", "name": "x", "days": "90"}
    assert (await browser.post(PAGE, data=sent)).status_code == 403, "without the token against forgery"
    foreign = await browser.post(PAGE, data=sent | {"_csrf": browser.csrf}, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    priya = await application.person("priya")
    assert (await priya.post(PAGE, data=sent)).status_code == 403, "with an API token"
    assert (await priya.get(PAGE)).status_code == 403
    assert (await application.stranger().post(PAGE, data=sent)).status_code == 303, "leads to the login"
    assert await application.scalar("SELECT count(*) FROM device_logins WHERE is_allowed IS NOT NULL") == 0


@on_one
@pytest.mark.parametrize("machine", ["", " x", "x" * 81, "a\nb", "a\x1b[2Jb", "\u202eoak"])
async def test_a_name_that_people_cannot_be_shown_is_refused(application: Application, machine: str) -> None:
    answer = await application.stranger().post(BEGIN, data={"client_id": "terracrew-cli", "machine": machine})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


@on_one
async def test_a_name_of_a_machine_is_text_and_nothing_else(application: Application) -> None:
    browser, begun = await logged_in(application), await begin(application.stranger(), '<img src=x onerror="1">')
    await browser.see(PAGE)
    page = (await browser.submit(PAGE, code=begun["user_code"])).text
    assert "<img" not in page
    assert "&lt;img" in page


@on_one
async def test_the_token_of_an_earlier_login_is_replaced_and_any_other_is_not(application: Application) -> None:
    terminal, browser = application.stranger(), await logged_in(application)
    tokens: list[str] = []
    for _ in range(2):
        begun = await begin(terminal)
        await answered(browser, begun["user_code"], "allow")
        tokens.append((await poll(terminal, begun["device_code"])).json()["access_token"])
    assert [await is_accepted(application, each) for each in tokens] == [False, True]
    await people.create_token(application.server.db, application.admin.principal, "ci", None)
    begun = await begin(terminal)
    refused = await answered(browser, begun["user_code"], "allow", name="ci")
    assert (refused.status_code, "choose another name" in refused.text) == (400, True)
    assert (await answered(browser, begun["user_code"], "allow", days="99999")).status_code == 400
    assert (await answered(browser, begun["user_code"], "allow", name="other")).status_code == 200
