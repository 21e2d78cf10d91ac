"""A running server behind a proxy, and under another name: who asks is known, and no other name reaches it."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import urllib3

from tests.e2e.system import System, running

pytestmark = pytest.mark.feature("X3.people")
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
