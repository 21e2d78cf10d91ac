"""Every operation of the API by everybody who should not: refused, nothing told, nothing changed.

The operations come from the served document, so that a new one is attacked as soon as it exists: who may do it has to be
said here, and what it takes (a body, a path parameter) too.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import urllib3

from tests.e2e import modules
from tests.e2e.people import People, everything, opened
from tests.e2e.simulated import claim, hub, runner_hello, runner_token
from tests.e2e.system import System, running

pytestmark = pytest.mark.feature("X2", "X3", "X4", "A5")

PUBLIC = {"POST /connect/token", "GET /.well-known/jwks.json", "GET /.well-known/openid-configuration"}
"""Anybody's; what they let through is tested where they are."""
_OWN = {"GET /me", "GET /tokens", "POST /tokens", "POST /me/link"}
_LISTS = {"GET /groups", "GET /modules", "GET /runners", "GET /jobs", "GET /roles", "GET /events"}
"""Of what one may see, which may be nothing."""

MAY: dict[str, set[str]] = {
    "nobody": set(),
    "expired token": set(),
    "revoked token": set(),
    "disabled user": set(),
    "garbage": set(),
    "stranger": _OWN | _LISTS,
    "foreign viewer": _OWN | _LISTS,
    "foreign owner": _OWN | _LISTS | {
        "POST /groups", "POST /archives", "POST /runners", "POST /runners/register", "GET /users", "POST /users",
        "GET /service-accounts", "POST /service-accounts", "GET /audit",
    },
    "viewer": _OWN | _LISTS | {
        "GET /groups/{group}", "GET /modules/{module}", "GET /modules/{module}/outputs", "GET /runners/{runner}",
        "GET /runners/{runner}/assignments", "GET /jobs/{job}", "GET /jobs/{job}/log", "GET /jobs/{job}/log/stream",
        "GET /jobs/{job}/attempts/{attempt}",
    },
    "sibling's operator": _OWN | _LISTS | {"POST /archives"},
    "runner": {"GET /me"} | _LISTS - {"GET /events"},
    "engine": {"GET /me"} | _LISTS - {"GET /events"},
    "executor": {"GET /me"} | _LISTS - {"GET /events"},
}  # fmt: skip
REFUSED_BY = {"POST /modules": {400, 401, 403, 404}}
"""In their own organization the foreign owner may make modules, but not of an archive of ours: to them there is none."""
UNKNOWN = {"nobody", "expired token", "revoked token", "disabled user", "garbage"}
SEES_TEAM = {"viewer"}

ARCHIVE = b"\x1f\x8b"
BODIES: dict[str, Any] = {
    "POST /groups": {"path": "made-by-{who}"},
    "POST /modules": {"path": "module-by-{who}", "source": {"kind": "archive", "archive_id": "{archive}"}},
    "PATCH /modules/{module}": {"description": "mine now"},
    "POST /archives": ARCHIVE,
    "POST /runners": {"name": "made-by-{who}"},
    "POST /runners/register": {"name": "registered-by-{who}"},
    "PATCH /runners/{runner}": {"is_disabled": True},
    "POST /runners/{runner}/drain": {},
    "POST /runners/{runner}/assignments": {"place": "{group}"},
    "DELETE /runners/{runner}/assignments": {"place": "{group}"},
    "POST /modules/{module}/jobs": {"type": "PLAN"},
    "POST /jobs/{job}/cancel": {},
    "POST /jobs/{job}/approve": {"plan": 1},
    "POST /jobs/{job}/decline": {"plan": 1},
    "POST /tokens": {"name": "made-by-{who}"},
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
        credentials = system.register_runner("crew", group="sibling")
        jwt = runner_token(system, credentials)
        runner = stack.enter_context(hub(system, jwt))
        assert runner.ask(runner_hello(credentials))["type"] == "welcome"
        granted = claim(runner, system.run("sibling/app")).credentials
        tokens |= {
            "nobody": None, "garbage": "tcu_" + "x" * 43, "revoked token": revoked["token"], "runner": jwt,
            "engine": granted.api, "executor": granted.hub,
        }  # fmt: skip
        paths = urllib3.request("GET", f"{system.url}/schema/openapi.json").json()["paths"]
        operations = [Operation(method.upper(), path) for path, methods in paths.items() for method in methods]
        yield Stage(system, tokens, ours, [each for each in operations if each.name not in PUBLIC])


def _team(system: System) -> dict[str, str]:
    """One of everything."""
    api = system.api
    system.module("team/web", modules.quick())
    system.module("sibling/app", modules.quick())
    module = api.get("/modules/team%2Fweb")
    account = api.post("/service-accounts", {"name": "bot", "group": "team"})["id"]
    return {
        "group": api.get("/groups/team")["id"], "module": module["id"], "archive": module["source"]["archive_id"],
        "job": system.run("team/web"), "runner": api.post("/runners", {"name": "ours", "group": "team"})["id"],
        "account_id": account, "secret_id": api.post(f"/service-accounts/{account}/secrets", {})["id"],
        "user_id": api.post("/users", {"name": "victim"})["user"]["id"],
        "role_id": api.post("/roles", {"principal": "victim", "role": "viewer", "path": "team"})["id"],
        "token_id": api.post("/tokens", {"name": "spare"})["id"],
    }  # fmt: skip


async def _people(data: Path, ours: dict[str, str]) -> dict[str, str | None]:
    db = await opened(data)
    people = People(db)
    here, elsewhere = await people.default(), await people.organization("elsewhere")
    tokens: dict[str, str | None] = {}
    for name, organization_id, role, path in (
        ("stranger", here, None, ""),
        ("viewer", here, "viewer", "team"),
        ("sibling's operator", here, "operator", "sibling"),
        ("foreign viewer", elsewhere, "viewer", ""),
        ("foreign owner", elsewhere, "owner", ""),
        ("expired token", here, "owner", ""),
        ("disabled user", here, "owner", ""),
    ):
        user = await people.person(organization_id, name.replace(" ", "-").replace("'", ""), role, path)
        tokens[name] = token = await people.token(user)
        if name == "expired token":
            await people.end(token)
        if name == "disabled user":
            await people.disable(user)
    ours["attempt"] = await people.attempt(ours["job"])
    ours["version"] = await people.quarantined_state(ours["module"], ours["job"])
    await db.close()
    return tokens


@pytest.mark.parametrize("who", MAY)
def test_nobody_reaches_what_is_not_theirs(stage: Stage, who: str) -> None:
    wrong: list[str] = []
    for operation in stage.operations:
        before = everything(stage.system.data)
        status, body = stage.ask(who, operation)
        if operation.name in MAY[who]:
            if status >= 400 and not (body and operation.name == "POST /archives" and status == 400):
                wrong.append(f"{operation.name} → {status}: it is theirs ({body[:200]!r})")
        else:
            if status not in ({401} if who in UNKNOWN else REFUSED_BY.get(operation.name, {401, 403, 404})):
                wrong.append(f"{operation.name} → {status}, which should be refused ({body[:200]!r})")
            after = everything(stage.system.data)
            if changed := [table for table in before if before[table] != after[table]]:
                wrong.append(f"{operation.name} → {status}, yet it has changed {changed}")
        if who not in SEES_TEAM:
            told = {name for name, it in stage.ours.items() if it.encode() in body and it not in operation.path}
            asked = {name for name in stage.ours if f"{{{name}}}" in operation.path + str(BODIES.get(operation.name))}
            if told - asked or b"team" in body:
                wrong.append(f"{operation.name} → {status} tells of {told - asked or 'team'}: {body[:300]!r}")
    assert not wrong, "\n".join(wrong)


def test_every_operation_is_somebodys(stage: Stage) -> None:
    """A name in the tables that the API does not have is a typing mistake that would hide a hole."""
    names = {each.name for each in stage.operations}
    assert {name for allowed in MAY.values() for name in allowed} | set(BODIES) <= names
