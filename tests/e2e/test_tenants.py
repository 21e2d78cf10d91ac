"""Every operation of the API by everybody who should not: refused, nothing told, nothing changed.

The operations come from the served document, and those that it does not show from the application's own routes, so that a new
one is attacked as soon as it exists: who may do it has to be said here, and what it takes (a body, a path parameter) too.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest
import urllib3

from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.uploads import PART_BYTES
from terracrew.server.app import ROUTERS
from terracrew.server.http.request import App, Call
from tests.e2e import modules
from tests.e2e.people import People, everything, opened
from tests.e2e.simulated_runner import beating, claim, hub, runner_hello, runner_token
from tests.e2e.system import System, running

pytestmark = pytest.mark.feature("X2", "X3", "X4", "A5")

PUBLIC = {
    "POST /connect/token",
    "GET /.well-known/jwks.json",
    "GET /.well-known/openid-configuration",
    "GET /openapi.json",
    "GET /api",
}
"""Anybody's; what they let through is tested where they are."""
_OWN = {"GET /me", "GET /tokens", "POST /tokens", "GET /dashboard/account"}
_LISTS = {
    "GET /groups",
    "GET /modules",
    "GET /runners",
    "GET /jobs",
    "GET /roles",
    "GET /events",
    "GET /dashboard",
    "GET /dashboard/runners",
    "GET /dashboard/jobs",
    "GET /dashboard/modules",
    "GET /dashboard/runners/add",
}
"""Of what one may see, which may be nothing."""

_SEES = (
    _OWN
    | _LISTS
    | {
        "GET /groups/{group}",
        "GET /modules/{module}",
        "GET /modules/{module}/outputs",
        "GET /runners/{runner}",
        "GET /runners/{runner}/assignments",
        "GET /jobs/{job}",
        "GET /jobs/{job}/log",
        "GET /jobs/{job}/log/stream",
        "GET /jobs/{job}/attempts/{attempt}",
        "GET /dashboard/jobs/{job}",
        "GET /dashboard/modules/{module}",
    }
)
_RUNS = _SEES | {
    "GET /modules/{module}/resources",
    "GET /dashboard/modules/{module}/destroy",
    "POST /archives",
    "PUT /uploads",
    "POST /modules/{module}/jobs",
    "POST /jobs/{job}/cancel",
    "POST /jobs/cancel",
    "POST /jobs/{job}/rerun",
    "POST /jobs/{job}/attempts/{attempt}/gone",
    "GET /modules/{module}/state",
    "GET /modules/{module}/states",
    "GET /states/{version}",
    "POST /dashboard/jobs/{job}/cancel",
    "POST /dashboard/jobs/{job}/rerun",
    "POST /dashboard/jobs/{job}/gone",
    "POST /dashboard/modules/{module}/run",
}
_DECIDES = {
    "POST /jobs/{job}/approve",
    "POST /jobs/{job}/decline",
    "POST /dashboard/jobs/{job}/approve",
    "POST /dashboard/jobs/{job}/decline",
}
ROLES: dict[str, set[str]] = {"operator": _RUNS, "approver": _RUNS | _DECIDES}
"""What each may where it has its role; it is not done here, since that would change what there is."""

MAY: dict[str, set[str]] = {
    "nobody": set(),
    "expired token": set(),
    "revoked token": set(),
    "disabled user": set(),
    "garbage": set(),
    "stranger": _OWN | _LISTS,
    "foreign viewer": _OWN | _LISTS,
    "foreign owner": _OWN
    | _LISTS
    | {
        "POST /groups",
        "POST /archives",
        "PUT /uploads",
        "POST /runners",
        "POST /runners/register",
        "GET /users",
        "POST /users",
        "GET /service-accounts",
        "POST /service-accounts",
        "GET /audit",
        "POST /dashboard/runners/add",
    },
    "viewer": _SEES,
    "sibling's operator": _OWN | _LISTS | {"POST /archives", "PUT /uploads"},
    "runner": {"GET /me"} | _LISTS - {"GET /events"},
    "engine": {"GET /me"} | _LISTS - {"GET /events"},
    "executor": {"GET /me"} | _LISTS - {"GET /events"},
}
REFUSED_BY = {
    "POST /dashboard/account/password": {303, 400, 401, 403},
    "POST /modules": {400, 401, 403, 404},
    "PUT /uploads/{upload}/{index}": {401, 403, 409},
}
"""Who may upload is told that there is no such upload, and to begin one (409).

In their own organization the foreign owner may make modules, but not of an archive of ours: to them there is none.
"""
UNKNOWN = {"nobody", "expired token", "revoked token", "disabled user", "garbage"}
SEES_TEAM = {"viewer", "operator", "approver"}
OF_NO_TENANT = ("/healthz", "/readyz", "/metrics", "/login", "/logout", "/static/", "/schema")

FORM = {
    "name": "mine",
    "plan": "1",
    "attempt": "1",
    "type": "PLAN",
    "mode": "kill",
    "on": "true",
    "confirm": "1",
    "force": "true",
    "reason": "",
    "password": "a long enough one",
    "again": "a long enough one",
}
"""Enough for every form: the others' fields are passed over."""
ARCHIVE = b"\x1f\x8b"
OURS_IN_PARTS = {"target": "archive", "sha256": "1" * 64, "size": 2_000_000}
BODIES: dict[str, Any] = {
    "POST /groups": {"path": "made-by-{who}"},
    "POST /modules": {"path": "module-by-{who}", "source": {"kind": "archive", "archive_id": "{archive}"}},
    "PATCH /modules/{module}": {"description": "mine now"},
    "POST /archives": ARCHIVE,
    "PUT /uploads": {"target": "archive", "sha256": "0" * 64, "size": 2_000_000},
    "PUT /uploads/{upload}/{index}": b"x" * PART_BYTES,
    "POST /runners": {"name": "made-by-{who}"},
    "POST /runners/register": {"name": "registered-by-{who}"},
    "PATCH /runners/{runner}": {"is_disabled": True},
    "POST /runners/{runner}/drain": {},
    "POST /runners/{runner}/assignments": {"place": "{group}"},
    "DELETE /runners/{runner}/assignments": {"place": "{group}"},
    "POST /modules/{module}/jobs": {"type": "PLAN"},
    "POST /jobs/{job}/cancel": {},
    "POST /jobs/cancel": {"module": "{module}"},
    "POST /jobs/{job}/rerun": {},
    "POST /jobs/{job}/attempts/{attempt}/gone": {},
    "PUT /runnerhub/attempts/{job}/{attempt}/states/{number}": b"x" * 40,
    "PUT /runnerhub/attempts/{job}/{attempt}/uploads": {"target": "plan", "sha256": "0" * 64, "size": 2_000_000},
    "PUT /runnerhub/attempts/{job}/{attempt}/uploads/{upload}/{index}": b"x" * PART_BYTES,
    "PUT /runnerhub/attempts/{job}/{attempt}/plan": b"x" * 40,
    "POST /runnerhub/attempts/{job}/{attempt}/cloud-token": {"audience": "sts.amazonaws.com", "phase": "plan"},
    "POST /jobs/{job}/approve": {"plan": 1},
    "POST /jobs/{job}/decline": {"plan": 1},
    "POST /jobs/{job}/replan": {"plan": 1},
    "PATCH /groups/{group}": {"description": "changed by {who}"},
    "POST /tokens": {"name": "made-by-{who}"},
    "POST /me/password": {"new_password": "a long enough one", "current_password": "a guess"},
    "POST /users": {"name": "made-by-{who}"},
    "PATCH /users/{user_id}": {"is_disabled": True},
    "POST /service-accounts": {"name": "made-by-{who}"},
    "POST /service-accounts/{account_id}/secrets": {},
    "POST /roles": {"principal": "{user_id}", "role": "owner", "path": ""},
}


class Operation(NamedTuple):
    method: str
    path: str

    @property
    def name(self) -> str:
        return f"{self.method} {self.path.removeprefix('/api/v1')}"

    @property
    def is_page(self) -> bool:
        return self.path.startswith("/dashboard")


class Stage(NamedTuple):
    system: System
    tokens: dict[str, str | None]
    ours: dict[str, str]
    """What there is in `team`, by path parameter."""
    operations: list[Operation]

    def ask(self, who: str, operation: Operation) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"} if (token := self.tokens[who]) else {}
        url = self.system.url + operation.path.format_map(self.ours)
        body = BODIES.get(operation.name)
        if operation.is_page and operation.method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            body = urlencode(FORM)
        if isinstance(body, dict):
            headers["Content-Type"] = "application/json"
            filled = msgspec.json.encode(body).decode().replace("{who}", who.replace(" ", "-").replace("'", ""))
            for name, value in self.ours.items():
                filled = filled.replace(f"{{{name}}}", value)
            body = filled.encode()
        answer = urllib3.request(
            operation.method, url, body=body, headers=headers, retries=False, preload_content=False, timeout=10
        )
        try:
            is_endless = answer.headers.get("Content-Type", "").startswith("text/event-stream")
            return answer.status, b"" if is_endless else answer.read()
        finally:
            answer.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        system = stack.enter_context(running(Path(tmp_path_factory.mktemp("tenants"))))
        server = system.start_server(runner=False)
        ours = _team(system)
        revoked = system.api.post("/tokens", {"name": "revoked"})
        system.api.delete(f"/tokens/{revoked['id']}")
        server.stop()
        tokens = asyncio.run(_people(system.data, ours))
        system.start_server(runner=False)
        victim = system.register_runner("victim", group="team")
        at_work = stack.enter_context(hub(system, runner_token(system, victim)))
        assert at_work.ask(runner_hello(victim))["type"] == "welcome"
        taken = claim(at_work, ours["job"]).spec
        stack.enter_context(beating(at_work, AttemptRef(taken.job_id, taken.attempt)))
        credentials = system.register_runner("crew", group="sibling")
        jwt = runner_token(system, credentials)
        runner = stack.enter_context(hub(system, jwt))
        assert runner.ask(runner_hello(credentials))["type"] == "welcome"
        own = claim(runner, system.run("sibling/app"))
        stack.enter_context(beating(runner, AttemptRef(own.spec.job_id, own.spec.attempt)))
        granted = own.credentials
        tokens |= {
            "nobody": None,
            "garbage": "tcu_" + "x" * 43,
            "revoked token": revoked["token"],
            "runner": jwt,
            "engine": granted.api,
            "executor": granted.hub,
        }
        paths = urllib3.request("GET", f"{system.url}/schema/openapi.json").json()["paths"]
        operations = [Operation(method.upper(), path) for path, methods in paths.items() for method in methods]
        operations += _unlisted({each.name for each in operations})
        yield Stage(system, tokens, ours, [each for each in operations if each.name not in PUBLIC])


def _unlisted(shown: set[str]) -> list[Operation]:
    """What the application answers to and its document does not show."""
    found: list[Operation] = []
    for route in App(ROUTERS, request_class=Call, openapi_config=None).routes:
        path = route.path_format.replace("{job_id}", "{job}")
        for method in sorted(getattr(route, "methods", ())):
            operation = Operation(method, path)
            if (
                method != "OPTIONS"
                and path != "/"
                and not path.startswith(OF_NO_TENANT)
                and operation.name not in shown
            ):
                found.append(operation)
    assert len(found) >= 6, "the transfers of an attempt are not in the document"
    return found


def _team(system: System) -> dict[str, str]:
    """One of everything."""
    api = system.api
    system.module("team/web", modules.quick())
    system.module("team/db", modules.quick())
    system.module("sibling/app", modules.quick())
    module = api.get("/modules/team%2Fweb")
    account = api.post("/service-accounts", {"name": "bot", "group": "team"})["id"]
    return {
        "group": api.get("/groups/team")["id"],
        "module": module["id"],
        "archive": module["source"]["archive_id"],
        "job": system.run("team/web"),
        "runner": api.post("/runners", {"name": "ours", "group": "team"})["id"],
        "account_id": account,
        "secret_id": api.post(f"/service-accounts/{account}/secrets", {})["id"],
        "user_id": api.post("/users", {"name": "victim"})["user"]["id"],
        "role_id": api.post("/roles", {"principal": "victim", "role": "viewer", "path": "team"})["id"],
        "token_id": api.post("/tokens", {"name": "spare"})["id"],
        "attempt": "1",
        "number": "1",
        "upload": api.put("/uploads", msgspec.json.encode(OURS_IN_PARTS), {"Content-Type": "application/json"})["id"],
        "index": "0",
        "doubtful": api.get("/modules/team%2Fdb")["id"],
    }


async def _people(data: Path, ours: dict[str, str]) -> dict[str, str | None]:
    async with opened(data) as people:
        return await _made_by(people, ours)


async def _made_by(people: People, ours: dict[str, str]) -> dict[str, str | None]:
    here, elsewhere = await people.default(), await people.organization("elsewhere")
    tokens: dict[str, str | None] = {}
    for name, organization_id, role, path in (
        ("stranger", here, None, ""),
        ("viewer", here, "viewer", "team"),
        ("operator", here, "operator", "team"),
        ("approver", here, "approver", "team"),
        ("sibling's operator", here, "operator", "sibling"),
        ("foreign viewer", elsewhere, "viewer", ""),
        ("foreign owner", elsewhere, "owner", ""),
        ("expired token", here, "owner", ""),
        ("disabled user", here, "owner", ""),
    ):
        user = await people.person(organization_id, name.replace(" ", "-").replace("'", ""), role, path)
        tokens[name] = await (people.expired_token(user) if name == "expired token" else people.token(user))
        if name == "disabled user":
            await people.disable(user)
    ours["user"] = "victim"
    ours["session_id"] = await people.session(ours["user_id"])
    ours["attempt"] = await people.attempt(ours["job"])
    ours["version"] = await people.quarantined_state(ours.pop("doubtful"), ours["job"])
    return tokens


@pytest.mark.parametrize("who", MAY)
def test_nobody_reaches_what_is_not_theirs(stage: Stage, who: str) -> None:
    wrong: list[str] = []
    before = everything(stage.system.data)
    for operation in stage.operations:
        status, body = stage.ask(who, operation)
        if operation.name in MAY[who]:
            if status >= 400 and not (body and operation.name == "POST /archives" and status == 400):
                wrong.append(f"{operation.name} → {status}: it is theirs ({body[:200]!r})")
            before = everything(stage.system.data)
        else:
            wrong += refused(stage, who, operation, status, body, before)
        if who not in SEES_TEAM:
            told = {
                name
                for name, it in stage.ours.items()
                if len(it) > 1 and it.encode() in body and it not in operation.path
            }
            asked = {name for name in stage.ours if f"{{{name}}}" in operation.path + str(BODIES.get(operation.name))}
            if told - asked or b"team" in body:
                wrong.append(f"{operation.name} → {status} tells of {told - asked or 'team'}: {body[:300]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("who", ROLES)
def test_a_role_ends_where_the_next_one_begins(stage: Stage, who: str) -> None:
    """Who runs jobs does not approve them; who approves them decides about no state, no runner and no access."""
    wrong: list[str] = []
    before = everything(stage.system.data)
    for operation in stage.operations:
        if operation.name not in ROLES[who]:
            wrong += refused(stage, who, operation, *stage.ask(who, operation), before)
    assert not wrong, "\n".join(wrong)


def refused(
    stage: Stage, who: str, operation: Operation, status: int, body: bytes, before: dict[str, Any]
) -> list[str]:
    wrong: list[str] = []
    usual = {303, 401, 403, 404} if operation.is_page else {401} if who in UNKNOWN else {401, 403, 404}
    if status not in REFUSED_BY.get(operation.name, usual):
        wrong.append(f"{operation.name} → {status}, which should be refused ({body[:200]!r})")
    after = everything(stage.system.data)
    if changed := [table for table in before if before[table] != after[table]]:
        wrong.append(
            f"{operation.name} → {status}, yet it has changed {changed}: {_differences(before, after, changed)}"
        )
        before |= after
    return wrong


def _differences(before: dict[str, Any], after: dict[str, Any], tables: list[str]) -> str:
    """Return the rows that differ, so that a change by the server itself can be told from one by the request."""
    rows = [row for table in tables for row in after[table] if row not in before[table]]
    return str(rows)[:1_000]


def test_every_operation_is_somebodys(stage: Stage) -> None:
    """A name in the tables that the API does not have is a typing mistake that would hide a hole."""
    names = {each.name for each in stage.operations}
    assert {name for allowed in (MAY | ROLES).values() for name in allowed} | set(BODIES) <= names
