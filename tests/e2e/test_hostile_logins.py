"""A stranger guesses passwords and secrets at a running server, pretends to be elsewhere, and points other names at it."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import pytest
import urllib3

from tests.e2e.system import System, running

pytestmark = pytest.mark.feature("X3")
PASSWORD = "a long enough one"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with running(tmp_path) as found:
        yield found


def post(system: System, path: str, fields: dict[str, str], **headers: str) -> urllib3.BaseHTTPResponse:
    sent = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return urllib3.request(
        "POST", system.url + path, body=urlencode(fields), headers=sent, redirect=False, retries=False, timeout=60
    )


def person(system: System, name: str) -> dict[str, str]:
    """Make a user with a password; returns the cookies of the browser that set it."""
    link = system.api.post("/users", {"name": name})["link"]
    path = re.sub(r"^https?://[^/]+", "", link)
    answer = post(system, path, {"password": PASSWORD, "again": PASSWORD})
    assert answer.status == 303, answer.data
    return cookies(answer)


def cookies(answer: urllib3.BaseHTTPResponse) -> dict[str, str]:
    set_cookies = [value.partition(";")[0] for value in answer.headers.getlist("Set-Cookie")]
    return dict(value.split("=", 1) for value in set_cookies)


def log_in(system: System, name: str, password: str, **headers: str) -> urllib3.BaseHTTPResponse:
    return post(system, "/login", {"name": name, "password": password}, **headers)


def test_guesses_are_limited_whatever_address_they_pretend_and_lock_nobody_out(system: System) -> None:
    """60 of 60 concurrent guesses were evaluated, and each could name another address in X-Forwarded-For."""
    system.start_server(runner=False)
    browser = person(system, "vera")
    person(system, "paul")
    with ThreadPoolExecutor(60) as threads:
        guesses = [
            threads.submit(log_in, system, "vera", f"guess {n}", **{"X-Forwarded-For": f"203.0.113.{n}"})
            for n in range(60)
        ]
        answers = [guess.result() for guess in guesses]
    assert Counter(answer.status for answer in answers) == {401: 10, 429: 50}
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers if answer.status == 429)
    assert log_in(system, "vera", PASSWORD).status == 429
    assert log_in(system, "paul", PASSWORD).status == 303, "another person at the same address"
    known = "; ".join(f"{name}={value}" for name, value in browser.items() if "device" in name)
    assert log_in(system, "vera", PASSWORD, Cookie=known).status == 303, "the browser that she has used before"


def test_behind_a_trusted_proxy_the_client_is_limited_and_cookies_are_bound_to_the_host(system: System) -> None:
    system.env["TERRACREW_SERVER_TRUSTED_PROXIES"] = "127.0.0.1"
    system.start_server(runner=False)
    person(system, "vera")
    for _ in range(10):
        assert log_in(system, "vera", "wrong", **{"X-Forwarded-For": "198.51.100.1, 203.0.113.1"}).status == 401
    assert log_in(system, "vera", PASSWORD, **{"X-Forwarded-For": "198.51.100.2, 203.0.113.1"}).status == 429
    answer = log_in(system, "vera", PASSWORD, **{"X-Forwarded-For": "203.0.113.2", "X-Forwarded-Proto": "https"})
    assert answer.status == 303
    assert set(cookies(answer)) == {"__Host-terracrew_session", "__Host-terracrew_device"}
    assert all("Secure" in value and "Domain" not in value for value in answer.headers.getlist("Set-Cookie"))
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in log_in(system, "vera", PASSWORD).headers


def test_a_wrong_secret_is_limited_and_the_right_one_is_not(system: System) -> None:
    system.start_server(runner=False)
    account = system.api.post("/service-accounts", {"name": "ci", "group": ""})["id"]
    made = system.api.post(f"/service-accounts/{account}/secrets", {})

    def exchange(secret: str) -> int:
        form = {"grant_type": "client_credentials", "client_id": made["client_id"], "client_secret": secret}
        return post(system, "/connect/token", form).status

    with ThreadPoolExecutor(30) as threads:
        statuses = Counter(threads.map(exchange, [f"tcs_{n}" for n in range(60)]))
    assert statuses == {401: 10, 429: 50}
    assert exchange(made["client_secret"]) == 200


def test_another_name_for_this_machine_reaches_nothing(system: System) -> None:
    """A page whose name was pointed at 127.0.0.1 could read `/metrics`, which was open to this machine."""
    system.start_server(runner=False)
    for path in ("/metrics", "/api/v1/me", "/login", "/dashboard/runners", "/static/app.css"):
        answer = urllib3.request("GET", system.url + path, headers={"Host": "rebound.evil.example"}, redirect=False)
        assert (answer.status, answer.json()["code"]) == (421, "invalid")
    for headers in ({}, {"X-Forwarded-For": "203.0.113.9"}):
        answer = urllib3.request("GET", f"{system.url}/metrics", headers=headers)
        assert answer.status == 401, "a proxy on this machine does not open it to the world"
    token = (system.data / "metrics.token").read_text().strip()
    assert urllib3.request("GET", f"{system.url}/metrics", headers={"Authorization": f"Bearer {token}"}).status == 200
    upgrade = {"Host": "evil.example", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    key = {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    assert urllib3.request("GET", f"{system.url}/runnerhub", headers=upgrade | key, retries=False).status == 421


def test_a_leaked_token_of_one_day_does_not_become_the_account(system: System) -> None:
    """A token of one day made one without an end and replaced the password by a login link; old tokens outlived that."""
    system.start_server(runner=False)
    person(system, "vera")
    system.api.post("/roles", {"principal": "vera", "role": "owner"})
    answer = log_in(system, "vera", PASSWORD)
    session = "; ".join(f"{name}={value}" for name, value in cookies(answer).items())
    page = urllib3.request("GET", f"{system.url}/dashboard/account", headers={"Cookie": session}).data.decode()
    csrf = re.findall(r'name="_csrf" value="(\w+)"', page)[0]

    def ask(method: str, path: str, body: dict[str, object], **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request(method, f"{system.url}/api/v1{path}", json=body, headers=headers, retries=False)

    browser = {"Cookie": session, "X-CSRF-Token": csrf}
    leaked = ask("POST", "/tokens", {"name": "ci", "expires_in_days": 1}, **browser).json()
    thief = {"Authorization": f"Bearer {leaked['token']}"}
    assert ask("POST", "/tokens", {"name": "forever"}, **thief).json()["expires_at"] <= leaked["expires_at"]
    for path, body in (
        ("/tokens", {"name": "longer", "expires_in_days": 3650}),
        ("/me/link", {}),
        ("/users", {"name": "accomplice"}),
        ("/me/password", {"new_password": "the thief's password"}),
        ("/me/password", {"new_password": "the thief's password", "current_password": "a guess"}),
    ):
        assert ask("POST", path, body, **thief).status == 403, path
    form = {"_csrf": csrf, "current": PASSWORD, "password": "the next password", "again": "the next password"}
    changed = post(system, "/dashboard/account/password", form, Cookie=session)
    assert b"Your password is changed. Ended: 1 other session, 2 API tokens." in changed.data
    assert ask("GET", "/me", {}, **thief).status == 401
    assert log_in(system, "vera", PASSWORD).status == 401
    assert urllib3.request("GET", f"{system.url}/dashboard/account", headers={"Cookie": session}).status == 200
