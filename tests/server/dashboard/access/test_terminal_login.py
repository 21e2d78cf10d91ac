"""`tofu login` and `terraform login`: a person allows it in a browser, and nobody else gets the token."""

import base64
import hashlib
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from terracrew.server.dashboard.access.terminal_login import engine_token_name
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service as people
from terracrew.server.identity.terminal_logins import store
from terracrew.server.secrets import credentials
from tests.builders.clock import ShiftedClock
from tests.server.application import Application, Person, on_one
from tests.server.dashboard.visitor import Visitor, logged_in, visitor

PAGE, EXCHANGE = "/dashboard/terminal-login", "/connect/token"
VERIFIER = "0cf17e6c-8f47-2f19-4a8c-6e1d2b3c4d5e.012345678"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
REDIRECT = "http://localhost:10003/login"
ASKED = {
    "client_id": "terraform-cli",
    "response_type": "code",
    "code_challenge_method": "S256",
    "code_challenge": CHALLENGE,
    "redirect_uri": REDIRECT,
    "state": "4f1c-a&b",
}


@pytest.fixture
def database_clock() -> ShiftedClock:
    return ShiftedClock()


async def allowed(browser: Visitor, name: str = "laptop", **answer: str) -> str:
    """Allow the request, and return the code that the browser brings to the command line."""
    assert (await browser.get(PAGE, params=ASKED)).status_code == 200
    await browser.see("/dashboard/account")
    sent = await browser.submit(PAGE, **{**ASKED, "decision": "allow", "name": name, "days": "90", **answer})
    assert sent.status_code == 303, sent.text
    target = urlsplit(sent.headers["Location"])
    assert f"{target.scheme}://{target.netloc}{target.path}" == REDIRECT
    brought = parse_qs(target.query)
    assert brought["state"] == [ASKED["state"]]
    return brought["code"][0]


async def exchange(client: httpx.AsyncClient, with_code: str, /, **changed: str) -> httpx.Response:
    form = {
        "grant_type": "authorization_code",
        "code": with_code,
        "code_verifier": VERIFIER,
        "redirect_uri": REDIRECT,
        "client_id": "terraform-cli",
    }
    return await client.post(EXCHANGE, data={name: value for name, value in (form | changed).items() if value})


async def is_accepted(application: Application, token: str) -> bool:
    script = application.stranger()
    answer = await script.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code == 200


async def test_a_person_allows_it_and_the_command_line_gets_a_token_that_can_be_revoked(
    application: Application,
) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    answer = await exchange(terminal, code)
    assert answer.status_code == 200, answer.text
    assert answer.headers["Cache-Control"] == "no-store"
    given = answer.json()
    assert (given["token_type"], given["expires_in"]) == ("bearer", 90 * 86_400)
    assert given["access_token"].startswith("tcu_")
    assert await is_accepted(application, given["access_token"])
    page = await browser.see("/dashboard/account")
    row = next(each for each in page.split("<tr>") if ">laptop<" in each)
    assert "by tofu login" in row
    revoke = re.search(r'action="(/dashboard/account/tokens/tok_\w+/revoke)"', row)
    assert revoke is not None
    assert (await browser.submit(revoke[1])).status_code == 303
    assert not await is_accepted(application, given["access_token"])
    entries = await application.server.db.read(
        lambda tx: tx.all("SELECT action, details FROM audit WHERE action LIKE 'token.%' ORDER BY id")
    )
    assert [each["action"] for each in entries[-3:]] == ["token.allow", "token.create", "token.revoke"]
    everything = await application.server.db.read(lambda tx: tx.all("SELECT * FROM engine_logins"))
    assert code not in f"{entries}{everything}"
    assert given["access_token"] not in f"{entries}{everything}"


async def test_a_refusal_is_brought_to_the_command_line_and_audited(application: Application) -> None:
    browser = await logged_in(application)
    await browser.see("/dashboard/account")
    sent = await browser.submit(PAGE, **ASKED, decision="deny")
    assert sent.status_code == 303
    assert parse_qs(urlsplit(sent.headers["Location"]).query) == {"error": ["access_denied"], "state": [ASKED["state"]]}
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'token.deny'") == 1
    assert await application.scalar("SELECT count(*) FROM engine_logins") == 0


@on_one
async def test_who_is_not_logged_in_logs_in_and_comes_back(application: Application) -> None:
    stranger = visitor(application)
    first = await stranger.get(PAGE, params=ASKED)
    assert first.status_code == 303
    door = await stranger.get(first.headers["Location"])
    to = re.search(r'name="next" value="([^"]*)"', door.text)
    assert to is not None
    await logged_in(application)  # the administrator has a password from now on
    entered = await stranger.post(
        "/login", data={"name": "admin", "password": "correct horse battery", "next": to[1].replace("&amp;", "&")}
    )
    target = urlsplit(entered.headers["Location"])
    assert (target.path, {name: each[0] for name, each in parse_qs(target.query).items()}) == (PAGE, ASKED)


@on_one
async def test_the_page_says_what_it_is_about_and_lets_forms_lead_to_the_waiting_port_only(
    application: Application,
) -> None:
    browser = await logged_in(application)
    answer = await browser.get(PAGE, params=ASKED, headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)"})
    assert "localhost:10003" in answer.text
    assert 'value="tofu login on Linux, ' in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert "form-action 'self' http://localhost:10003;" in policy
    assert "frame-ancestors 'none'" in policy


@on_one
@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "another"},
        {"client_id": ""},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": ""},
        {"code_challenge": ""},
        {"code_challenge": VERIFIER},
        {"code_challenge": CHALLENGE[:-1] + "="},
        {"state": ""},
        {"state": "x" * 1001},
        {"state": "a\nb"},
        {"redirect_uri": "http://localhost:9999/login"},
        {"redirect_uri": "http://localhost:10011/login"},
        {"redirect_uri": "http://localhost:010003/login"},
        {"redirect_uri": "https://localhost:10003/login"},
        {"redirect_uri": "http://localhost:10003/login/"},
        {"redirect_uri": "http://localhost:10003/login?next=x"},
        {"redirect_uri": "http://localhost:10003@evil.example/login"},
        {"redirect_uri": "http://localhost.evil.example:10003/login"},
        {"redirect_uri": "http://127.0.0.1:10003/login"},
        {"redirect_uri": "http://localhost:10003/login\n"},
        {"redirect_uri": "https://evil.example/login"},
        {"redirect_uri": ""},
    ],
)
async def test_another_request_is_refused_with_a_page_and_no_redirect(
    application: Application, changed: dict[str, str]
) -> None:
    browser = await logged_in(application)
    asked = {name: value for name, value in (ASKED | changed).items() if value}
    shown = await browser.get(PAGE, params=asked)
    assert (shown.status_code, "This is not a login of a command line" in shown.text) == (400, True)
    await browser.see("/dashboard/account")
    for decision in ("allow", "deny"):
        sent = await browser.submit(PAGE, **asked, decision=decision, name="laptop")
        assert (sent.status_code, "Location" in sent.headers) == (400, False)
    assert await application.scalar("SELECT count(*) FROM engine_logins") == 0


@on_one
async def test_a_parameter_that_is_given_twice_is_refused(application: Application) -> None:
    browser = await logged_in(application)
    twice: Any = [*ASKED.items(), ("redirect_uri", "http://localhost:10004/login")]
    assert (await browser.get(PAGE, params=twice)).status_code == 400
    await browser.see("/dashboard/account")
    content = str(httpx.QueryParams([*twice, ("decision", "allow"), ("name", "x"), ("_csrf", browser.csrf)]))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert (await browser.post(PAGE, content=content, headers=form)).status_code == 400


@on_one
async def test_nobody_but_the_person_in_this_browser_can_allow_it(application: Application) -> None:
    browser = await logged_in(application)
    await browser.see("/dashboard/account")
    sent = {**ASKED, "decision": "allow", "name": "laptop", "days": "90"}
    assert (await browser.post(PAGE, data=sent)).status_code == 403, "without the token against forgery"
    foreign = await browser.post(PAGE, data=sent | {"_csrf": browser.csrf}, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    priya = await application.person("priya")
    other = await logged_in(application, "priya")
    assert (await other.post(PAGE, data=sent | {"_csrf": browser.csrf})).status_code == 403, "of another person"
    assert (await priya.post(PAGE, data=sent)).status_code == 403, "with an API token"
    assert (await priya.get(PAGE, params=ASKED)).status_code == 403
    assert (await application.stranger().post(PAGE, data=sent)).status_code == 303, "leads to the login"
    assert await application.scalar("SELECT count(*) FROM engine_logins") == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": VERIFIER[:-1] + "9"},
        {"code_verifier": CHALLENGE},
        {"code_verifier": "short"},
        {"redirect_uri": "http://localhost:10004/login"},
        {"client_id": "another"},
    ],
)
@on_one
async def test_a_stolen_code_gives_nothing_and_is_used_up_by_the_attempt(
    application: Application, changed: dict[str, str]
) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    stolen = await exchange(terminal, code, **changed)
    assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert (await exchange(terminal, code)).status_code == 400
    assert await application.scalar("SELECT count(*) FROM api_tokens WHERE name = 'laptop'") == 0


@on_one
@pytest.mark.parametrize("missing", ["code", "code_verifier", "redirect_uri", "client_id"])
async def test_an_incomplete_exchange_leaves_the_code_as_it_is(application: Application, missing: str) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    answer = await exchange(terminal, code, **{missing: ""})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
    assert (await exchange(terminal, code)).status_code == 200


async def test_a_second_use_of_a_code_revokes_the_token(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    token = (await exchange(terminal, code)).json()["access_token"]
    assert await is_accepted(application, token)
    assert (await exchange(terminal, code)).status_code == 400
    assert not await is_accepted(application, token)
    assert (await exchange(terminal, code)).status_code == 400
    reason = await application.scalar("SELECT details FROM audit WHERE action = 'token.revoke'")
    assert "was used again" in reason


async def test_a_code_expires(application: Application, database_clock: ShiftedClock) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    database_clock.advance(91)
    assert (await exchange(terminal, code)).json()["error"] == "invalid_grant"


async def test_a_code_ends_with_the_session_that_allowed_it(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    code = await allowed(browser)
    assert (await browser.submit("/logout")).status_code == 303
    assert (await exchange(terminal, code)).json()["error"] == "invalid_grant"


@on_one
async def test_the_token_of_an_earlier_login_is_replaced_and_any_other_is_not(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    before = (await exchange(terminal, await allowed(browser))).json()["access_token"]
    after = (await exchange(terminal, await allowed(browser))).json()["access_token"]
    assert [await is_accepted(application, each) for each in (before, after)] == [False, True]
    await people.create_token(application.server.db, application.admin.principal, "ci", None)
    refused = await browser.submit(PAGE, **ASKED, decision="allow", name="ci", days="")
    assert (refused.status_code, "choose another name" in refused.text) == (400, True)
    for fields in ({"name": ""}, {"name": "x" * 101}, {"name": "x", "days": "99999"}):
        assert (await browser.submit(PAGE, **ASKED, decision="allow", **fields)).status_code == 400


@on_one
async def test_a_token_may_have_no_end(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    given = (await exchange(terminal, await allowed(browser, days=""))).json()
    assert "expires_in" not in given


@on_one
async def test_guesses_are_limited_and_noted(application: Application) -> None:
    terminal = application.stranger("192.0.2.7")
    answers = [await exchange(terminal, credentials.new("tca").text) for _ in range(102)]
    assert (answers[0].status_code, answers[-1].status_code) == (400, 429)
    assert int(answers[-1].headers["Retry-After"]) > 0
    await application.server.identity.failures.step()
    assert await application.scalar("SELECT count(*) FROM audit WHERE action = 'terminal_login.fail'") == 1


async def test_expired_codes_are_removed(application: Application, database_clock: ShiftedClock) -> None:
    await allowed(await logged_in(application))

    async def prune(tx: Tx) -> int:
        return await store.prune(tx, tx.now, 100)

    assert await application.server.db.write(prune) == 0
    database_clock.advance(100)
    assert await application.server.db.write(prune) == 1


@on_one
async def test_older_clients_are_led_to_the_page_that_makes_a_token(application: Application) -> None:
    stranger: Person = application.stranger()
    answer = await stranger.get("/app/settings/tokens?source=terraform-login")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/dashboard/account/tokens/create")


@on_one
async def test_names_are_made_from_what_the_browser_says_and_are_free(application: Application) -> None:
    now = datetime(2026, 11, 9, tzinfo=UTC)
    mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
    assert engine_token_name(mac, now, []) == "tofu login on macOS, 9 Nov 2026"
    assert engine_token_name("curl/8", now, []) == "tofu login, 9 Nov 2026"
    first, _ = await people.create_token(
        application.server.db, application.admin.principal, "tofu login on macOS, 9 Nov 2026", None
    )
    assert engine_token_name(mac, now, [first]) == "tofu login on macOS, 9 Nov 2026 (2)"


OWN_REDIRECT = "http://127.0.0.1:49152/callback"
OWN = ASKED | {"client_id": "terracrew-cli", "redirect_uri": OWN_REDIRECT, "machine": "ada@laptop"}


async def allowed_own(browser: Visitor) -> str:
    """Allow a request of our own command line, and return the code."""
    await browser.see("/dashboard/account")
    sent = await browser.submit(PAGE, **OWN, decision="allow", name="terracrew on ada@laptop", days="90")
    assert sent.status_code == 303, sent.text
    return parse_qs(urlsplit(sent.headers["Location"]).query)["code"][0]


@on_one
async def test_our_own_command_line_says_its_machine_and_gets_a_token_of_its_name(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    shown = await browser.get(PAGE, params=OWN)
    assert 'value="terracrew on ada@laptop"' in shown.text
    assert "form-action 'self' http://127.0.0.1:49152;" in shown.headers["Content-Security-Policy"]
    own = {"redirect_uri": OWN_REDIRECT, "client_id": "terracrew-cli"}
    first, second = [(await exchange(terminal, await allowed_own(browser), **own)).json() for _ in range(2)]
    assert second["token_id"].startswith("tok_")
    assert [await is_accepted(application, each["access_token"]) for each in (first, second)] == [False, True]
    assert "token_id" not in (await exchange(terminal, await allowed(browser))).json(), "engines do not know it"


@on_one
@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uri": "http://localhost:49152/callback"},
        {"redirect_uri": "http://127.0.0.1:80/callback"},
        {"redirect_uri": "http://127.0.0.1:1023/callback"},
        {"redirect_uri": "http://127.0.0.1:65536/callback"},
        {"redirect_uri": "http://127.0.0.1:049152/callback"},
        {"redirect_uri": "https://127.0.0.1:49152/callback"},
        {"redirect_uri": "http://127.0.0.1:49152/callback/"},
        {"redirect_uri": "http://127.0.0.1:49152/callback?next=x"},
        {"redirect_uri": "http://127.0.0.1:49152@evil.example/callback"},
        {"redirect_uri": "http://127.0.0.1.evil.example:49152/callback"},
        {"redirect_uri": "http://127.0.0.10:49152/callback"},
        {"redirect_uri": "https://evil.example/callback"},
        {"redirect_uri": REDIRECT},
        {"client_id": "terraform-cli"},
        {"machine": ""},
        {"machine": "x" * 81},
        {"machine": "a\x1bb"},
        {"state": ""},
        {"code_challenge_method": "plain"},
    ],
)
async def test_our_own_command_line_is_answered_on_this_machine_and_nowhere_else(
    application: Application, changed: dict[str, str]
) -> None:
    browser = await logged_in(application)
    asked = {name: value for name, value in (OWN | changed).items() if value}
    assert (await browser.get(PAGE, params=asked)).status_code == 400
    await browser.see("/dashboard/account")
    sent = await browser.submit(PAGE, **asked, decision="allow", name="laptop")
    assert (sent.status_code, "Location" in sent.headers) == (400, False)


@on_one
async def test_a_code_of_one_command_line_is_worth_nothing_for_another(application: Application) -> None:
    browser, terminal = await logged_in(application), application.stranger()
    for client_id in ("terraform-cli", "another"):
        stolen = await exchange(terminal, await allowed_own(browser), redirect_uri=OWN_REDIRECT, client_id=client_id)
        assert (stolen.status_code, stolen.json()["error"]) == (400, "invalid_grant")
    assert (await exchange(terminal, await allowed(browser), client_id="terracrew-cli")).status_code == 400
