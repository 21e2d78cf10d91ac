"""A hostile user with a valid token, and a stranger without one: odd paths, bodies, archives and streams."""

import contextlib
import json
import re
import socket
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from terracrew.server.http.streams import MAX_STREAMS
from terracrew.server.tree.inputs import checks
from tests.e2e import modules
from tests.e2e.people import everything
from tests.e2e.system import System, eventually, running

pytestmark = pytest.mark.feature("X4.bounded")
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("requests"))) as found:
        found.start_server(runner=True)
        found.module("team/web", modules.quick())
        found.wait(found.run("team/web"))
        yield found


def token_of(system: System) -> str:
    return (system.data / "admin.token").read_text().strip()


def ask(system: System, method: str, path: str, body: Any = None, **headers: str) -> urllib3.BaseHTTPResponse:
    sent = {"Authorization": f"Bearer {token_of(system)}"}
    if body is not None and not isinstance(body, bytes):
        body, sent = json.dumps(body).encode(), sent | JSON
    return urllib3.request(
        method, system.url + path, body=body, headers=sent | headers, retries=False, redirect=False, timeout=30
    )


def operations(system: System) -> list[tuple[str, str]]:
    paths = urllib3.request("GET", f"{system.url}/schema/openapi.json").json()["paths"]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


@contextlib.contextmanager
def unchanged(system: System) -> Generator[None]:
    before = everything(system.data)
    yield
    after = everything(system.data)
    assert [table for table in before if before[table] != after[table]] == []


def raw(system: System, request: str, body: bytes = b"") -> socket.socket:
    """A request as it is written here, and no further."""
    connection = socket.create_connection(("127.0.0.1", system.port), timeout=20)
    head = f"{request} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token_of(system)}\r\n"
    connection.sendall(head.encode() + body)
    return connection


# ---- paths and queries


@pytest.mark.parametrize(
    "value",
    [
        "..%2f",
        "%2e%2e",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%00",
        "a%00b",
        "%0d%0aX-Injected:%201",
        "%C2%B2",
        "9" * 5000,
        "a" * 3000,
        "%F0%9F%98%80",
        "%E2%80%AEgpj",
        "%FF%FE",
        "Team",
        "-",
        "mod_",
        "job_" + "0" * 32 + "%0A",
        "%25%30%30",
    ],
)
def test_no_path_parameter_leads_anywhere(system: System, value: str) -> None:
    with unchanged(system):
        for method, path in operations(system):
            if "{" not in path or method not in ("GET", "DELETE"):
                continue
            answer = ask(
                system, method, re.sub(r"\{\w+\}", value, path), *([{"place": ""}] if "assign" in path else [])
            )
            assert answer.status in (400, 404, 405), (method, path, answer.status, answer.data)
            assert "X-Injected" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "x/../../../app.py",
        "x/%2e%2e/%2e%2e/app.py",
        "x/..%2f..%2fapp.py",
        "x/%2Fetc/passwd",
        "x//etc/passwd",
        "x/%00",
        "..",
        "%2e%2e/x",
    ],
)
def test_static_files_are_those_that_there_are_and_no_others(system: System, path: str) -> None:
    connection = raw(system, f"GET /static/{path}", b"Connection: close\r\n\r\n")
    answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))


@pytest.mark.parametrize(
    "query",
    ["limit=-1", "limit=0", "limit=1000000000", "limit=1e99", "limit=", "after=rubbish", "after=%F0%9F%98%80"],
)
def test_odd_queries_are_refused_in_words(system: System, query: str) -> None:
    for path in ("groups", "modules", "runners", "jobs", "users", "roles", "tokens", "audit", "service-accounts"):
        answer = ask(system, "GET", f"/api/v1/{path}?{query}")
        assert (answer.status, answer.json()["code"]) == (400, "invalid"), (path, answer.data)


def test_no_number_is_too_large_for_a_log(system: System) -> None:
    for query in ("line", "limit", "after", "attempt", "lines", "line=1&lines"):
        answer = ask(system, "GET", f"/api/v1/jobs/1/log?{query}=1{'0' * 30}")
        assert answer.status in (200, 400)
        assert ask(system, "GET", f"/dashboard/runners?page=1{'0' * 30}").status == 200


@pytest.mark.parametrize("host", ["[", "[::1", "localhost:99999999", "a b", "\x80", "evil.example/.."])
def test_a_strange_host_breaks_nothing(system: System, host: str) -> None:
    for path in ("/dashboard/runners", "/login", "/api/v1/me", "/"):
        answer = urllib3.request("GET", system.url + path, headers={"Host": host}, redirect=False, retries=False)
        assert answer.status < 500
        assert "evil" not in answer.headers.get("Location", "")


def test_the_page_that_htmx_was_on_is_not_trusted(system: System) -> None:
    for place in ("http://[", "http://evil.example/dashboard/x", "javascript:alert(1)", "//evil.example"):
        headers = {"HX-Request": "true", "HX-Current-URL": place}
        answer = urllib3.request("GET", f"{system.url}/dashboard/runners", headers=headers, retries=False)
        assert answer.status == 401
        assert answer.headers["HX-Redirect"] in ("/login", "/login?next=%2Fdashboard%2Fx")


# ---- bodies


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/groups", {"path": "nul", "description": "a\0b"}),
        ("/tokens", {"name": "a\0b"}),
        ("/users", {"name": "a\0b"}),
        ("/roles", {"principal": "a\0b", "role": "viewer"}),
        ("/runners", {"name": "nul", "description": "\0"}),
        ("/modules/team%2Fweb/jobs", {"type": "PLAN\0"}),
    ],
)
def test_a_nul_character_is_refused_in_words(system: System, path: str, body: Any) -> None:
    """PostgreSQL cannot store it; SQLite could, and a database that is moved later would not arrive."""
    with unchanged(system):
        answer = ask(system, "POST", f"/api/v1{path}", body)
    assert answer.status == 400
    assert "NUL" in answer.json()["detail"]


def test_text_about_a_nul_character_is_text(system: System) -> None:
    made = ask(system, "POST", "/api/v1/groups", {"path": "about-nul", "description": r"\u0000 and \\u0000"})
    assert (made.status, made.json()["description"]) == (201, r"\u0000 and \\u0000")


@pytest.mark.parametrize(
    "name", ["Team", "te am", "тeam", "team\u200b", "team\u202e", "ｔeam", "tëam", "team/", "-", "a" * 64]
)
def test_names_are_plain_ascii_so_that_none_looks_like_another(system: System, name: str) -> None:
    for path, field in (("/groups", "path"), ("/runners", "name"), ("/service-accounts", "name")):
        assert ask(system, "POST", f"/api/v1{path}", {field: name}).status == 400
    assert ask(system, "POST", "/api/v1/users", {"name": name}).status in ((201, 409) if name == "a" * 64 else (400,))


@pytest.mark.parametrize("depth", [checks.MAX_INPUT_LEVELS + 1, 500, 960, 965, 100_000])
def test_deep_json_is_refused_and_poisons_nothing(system: System, depth: int) -> None:
    """Once 965 levels could be stored and never be read again: every list of modules was an error from then on."""
    source = {
        "kind": "archive",
        "archive_id": ask(system, "GET", "/api/v1/modules/team%2Fweb").json()["source"]["archive_id"],
    }
    head = json.dumps({"path": f"deep-{depth}", "source": source})[:-1]
    body = f'{head}, "inputs": {{"x": {"[" * depth}1{"]" * depth}}}}}'.encode()
    with unchanged(system):
        assert ask(system, "POST", "/api/v1/modules", body, **JSON).status == 400
    assert ask(system, "GET", "/api/v1/modules").status == 200


@pytest.mark.parametrize("number", ["1" * 5000, "1e999", "-1e999", "NaN", "Infinity"])
def test_numbers_that_no_engine_could_read_are_refused(system: System, number: str) -> None:
    body = f'{{"inputs": {{"x": {number}}}}}'.encode()
    assert ask(system, "PATCH", "/api/v1/modules/team%2Fweb", body, **JSON).status == 400


def test_a_body_of_50_mb_is_refused_wherever_it_is_sent(system: System) -> None:
    with unchanged(system):
        for method, path in operations(system):
            takes_more = ("/api/v1/archives", "/api/v1/modules/{module}/states", "/api/v1/modules/{module}/state")
            if method == "GET" or path in takes_more:
                continue
            to = re.sub(
                r"\{\w+\}", "team", path.replace("{attempt}", "1").replace("{index}", "1").replace("{step}", "plan")
            )
            head = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {50 << 20}\r\n\r\n"
            with raw(system, f"{method} {to}", head.encode() + b"x" * 1000) as connection:
                assert connection.recv(12) == b"HTTP/1.1 413", (method, path)


def test_slow_bodies_hold_up_nobody_else(system: System) -> None:
    with contextlib.ExitStack() as stack:
        for path in ("archives", "groups"):
            for _ in range(50):
                head = f"POST /api/v1/{path}", b"Content-Length: 1000\r\nContent-Type: application/json\r\n\r\n{"
                stack.enter_context(raw(system, *head))
        start = time.monotonic()
        assert ask(system, "GET", "/api/v1/me").status == 200
        assert time.monotonic() - start < 5
    eventually(lambda: not list((system.data / "uploads").iterdir()), what="the removal of what was not finished")


# ---- idempotency keys


def test_an_idempotency_key_cannot_be_abused(system: System) -> None:
    path = "/api/v1/modules/team%2Fweb/jobs"
    for key in ("", "x" * 201):
        assert ask(system, "POST", path, {"type": "PLAN"}, **{"Idempotency-Key": key}).status == 400
    first = ask(system, "POST", path, {"type": "PLAN"}, **{"Idempotency-Key": "one"})
    again = ask(system, "POST", path, {"type": "PLAN"}, **{"Idempotency-Key": "one"})
    assert (first.status, again.status, again.json()["id"]) == (201, 200, first.json()["id"])
    assert ask(system, "POST", path, {"type": "APPLY"}, **{"Idempotency-Key": "one"}).status == 409
    system.wait(first.json()["id"])


# ---- streams


@contextlib.contextmanager
def stream(system: System, token: str) -> Generator[urllib3.BaseHTTPResponse]:
    headers = {"Authorization": f"Bearer {token}"}
    answer = urllib3.PoolManager().request(
        "GET", f"{system.url}/api/v1/events", headers=headers, preload_content=False, retries=False, timeout=30
    )
    try:
        yield answer
    finally:
        answer.close()


def test_one_reader_holds_so_many_streams_and_no_more(system: System) -> None:
    token = system.api.post("/tokens", {"name": "greedy"})["token"]
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_STREAMS):
            assert stack.enter_context(stream(system, token)).read1(100)
        with stream(system, token) as one_more:
            assert one_more.status == 429
            assert "streams open already" in one_more.json()["detail"]
        assert ask(system, "GET", "/api/v1/me").status == 200

    def is_let_in() -> bool:
        with stream(system, token) as answer:
            return answer.status == 200

    eventually(is_let_in, what="room for a stream after the others were closed")


@pytest.mark.feature("A6.revocation")
def test_a_stream_tells_nothing_more_once_its_token_is_revoked(system: System) -> None:
    made = system.api.post("/tokens", {"name": "revoked soon"})
    with stream(system, made["token"]) as answer:
        assert answer.read1(100).startswith(b"retry:")
        system.api.post("/groups", {"path": "seen"})
        assert b"tree" in answer.read1(1000)
        system.api.delete(f"/tokens/{made['id']}")
        system.api.post("/groups", {"path": "unseen"})
        assert answer.read() == b""
