"""Everybody tries every operation of the API that is not theirs: it is refused, tells nothing and changes nothing.

The operations come from the served document, and those that it does not show from the application's own routes, so that a new
one is attacked as soon as it exists: `tenant_rights` has to say who may do it and what it takes (a body, a path parameter).
"""

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
import pytest
import urllib3

from terracrew import ids
from terracrew.client.http import ORGANIZATION_HEADER, Api
from terracrew.protocol.messages import AttemptRef
from terracrew.server.app import ROUTERS
from terracrew.server.http.request import App, Call
from tests.e2e import modules
from tests.e2e.people import People, Snapshots, opened
from tests.e2e.simulated_runner import beating, claim, hub, runner_hello, runner_token
from tests.e2e.system import System, running
from tests.e2e.tenant_requests import BODIES, FORM, FORMS, OURS_IN_PARTS, QUERIES
from tests.e2e.tenant_rights import MAY, OF_NO_TENANT, ORGANIZATIONS, PUBLIC, REFUSED_BY, ROLES, SEES_TEAM, UNKNOWN

pytestmark = pytest.mark.feature("A5.one", "X3.roles", "X4.tenants")


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
    snapshots: Snapshots

    def ask(self, who: str, operation: Operation, organization: str | None = None) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"} if (token := self.tokens[who]) else {}
        if named := organization or ORGANIZATIONS.get(who):
            headers[ORGANIZATION_HEADER] = named
        url = self.system.url + operation.path.format_map(self.ours) + QUERIES.get(operation.name, "")
        body = BODIES.get(operation.name)
        if operation.is_page and operation.method == "POST":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            form = {name: self._filled(value, who) for name, value in FORMS.get(operation.name, FORM).items()}
            body = urlencode(form)
        if isinstance(body, dict):
            headers["Content-Type"] = "application/json"
            body = self._filled(msgspec.json.encode(body).decode(), who).encode()
        answer = urllib3.request(
            operation.method, url, body=body, headers=headers, retries=False, preload_content=False, timeout=10
        )
        try:
            is_endless = answer.headers.get("Content-Type", "").startswith("text/event-stream")
            return answer.status, b"" if is_endless else answer.read()
        finally:
            answer.close()

    def _filled(self, text: str, who: str) -> str:
        filled = text.replace("{who}", who.replace(" ", "-").replace("'", ""))
        for name, value in self.ours.items():
            filled = filled.replace(f"{{{name}}}", value)
        return filled


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
        operations = [each for each in operations if each.name not in PUBLIC]
        yield Stage(system, tokens, ours, operations, stack.enter_context(closing(Snapshots(system.data))))


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
    runner = api.post("/runners", {"name": "ours", "group": "team"})["id"]
    system.module("sibling/user", modules.quick())
    api.post("/inputs", {"place": "sibling/user", "name": "it", "output": {"module": "team/web", "output": "it"}})
    connection = {"name": "ours", "kind": "gitea", "base_url": "https://127.0.0.1:1", "token": "ours", "group": "team"}
    forge = api.post("/forges", connection)["id"]
    [use] = api.get("/modules/team%2Fweb/dependencies?direction=used_by")["items"]
    return {
        "dependency": use["id"],
        "reference": use["id"],
        "group": api.get("/groups/team")["id"],
        "place": api.get("/modules/team%2Fdb")["id"],
        "module": module["id"],
        "archive": module["source"]["archive_id"],
        "job": system.run("team/web"),
        "runner": runner,
        "once_token": api.post(f"/runners/{runner}/once-tokens", {})["id"],
        "account_id": account,
        "identity": api.post(
            "/cloud-identities",
            {
                "name": "ours",
                "group": "team",
                "role_arn": "arn:aws:iam::123456789012:role/ours",
                "region": "eu-central-1",
            },
        )["id"],
        "channel": api.post(
            "/notification-channels",
            {"name": "ours", "kind": "webhook", "url": "https://127.0.0.1:1/x", "place": "team"},
        )["channel"]["id"],
        "notification": ids.new("ntf"),
        "schedule": api.post(
            "/schedules",
            {"place": "team", "name": "ours", "kind": "DESTROY", "cron": "0 3 * * *", "is_enabled": False},
        )["id"],
        "forge": forge,
        "repository": api.post(f"/forges/{forge}/repositories", {"name": "acme/network"})["id"],
        "rule": api.post(
            "/discovery-rules",
            {"name": "ours", "group": "team", "url": "ssh://git@127.0.0.1/acme/network", "is_enabled": False},
        )["id"],
        "policy": api.post(
            "/policies",
            {"name": "ours", "place": "team", "rego": 'package terracrew\n\ndeny contains "no" if input.plan.no\n'},
        )["id"],
        "published": _published(api, module["source"]["archive_id"]),
        "namespace": "team",
        "published_name": "ours",
        "system": "null",
        "exactly": "1.0.0",
        "delivery": ids.new("fdl"),
        "forge_user": "7",
        "secret_id": api.post(f"/service-accounts/{account}/secrets", {})["id"],
        "policy_id": api.post(
            f"/service-accounts/{account}/trust-policies",
            {"issuer": "https://ci.example.com", "claims": {"sub": "ours"}},
        )["id"],
        "user_id": api.post("/users", {"name": "victim"})["user"]["id"],
        "tenant": module["organization_id"],
        "workspace": module["id"],
        "configuration": _configuration(system, module["id"]),
        "sealed": "x",
        "rest": "x",
        "role_id": api.post("/roles", {"principal": "victim", "role": "viewer", "path": "team"})["id"],
        "token_id": api.post("/tokens", {"name": "spare"})["id"],
        "attempt": "1",
        "number": "1",
        "upload": api.replace("/uploads", OURS_IN_PARTS)["id"],
        "index": "0",
        "run": api.post("/groups/team/runs", {"type": "DESTROY"})["id"],
        "doubtful": api.get("/modules/team%2Fdb")["id"],
        "organization": api.post("/organizations", {"name": "third"})["id"],
        "release": api.post("/releases", {"version": "0.0.1"})["version"],
        "artifact": "none.whl",
        "release_token": api.post("/release-tokens", {"name": "ours"})["id"],
    }


def _published(api: Api, archive_id: str) -> str:
    """A published module with a version."""
    made = api.post("/published-modules", {"group": "team", "name": "ours", "system": "null"})["id"]
    api.post(f"/published-modules/{made}/versions", {"version": "1.0.0", "archive_id": archive_id})
    return made


def _configuration(system: System, module_id: str) -> str:
    """A configuration version for which nothing was uploaded."""
    url = f"{system.url}/api/tfe/v2/workspaces/{module_id}/configuration-versions"
    headers = {"Authorization": f"Bearer {(system.data / 'admin.token').read_text().strip()}"}
    return urllib3.request("POST", url, body=b"{}", headers=headers).json()["data"]["id"]


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
    ours |= await people.provider(here)
    ours["mute"] = await people.mute(here, ours["module"])
    ours["pull_request"] = await people.pull_request(here, ours["repository"])
    guest = await people.person(elsewhere, "guest", None, "")
    await people.grant(here, guest, "viewer", "team")
    tokens["guest"] = await people.token(guest)
    ours["user"] = "victim"
    ours["step"] = "plan"
    ours["section"] = "general"
    ours["session_id"] = await people.session(ours["user_id"])
    ours["fleet_job"] = await people.fleet_job(here, ours["group"])
    ours["rollout"] = await people.rollout(here, ours["group"], ours["runner"])
    ours["attempt"] = await people.attempt(ours["job"])
    ours["version"] = await people.quarantined_state(ours.pop("doubtful"), ours["job"])
    ours["output"] = f"{ours['version']}.it"
    return tokens


@pytest.mark.parametrize("who", MAY)
def test_nobody_reaches_what_is_not_theirs(stage: Stage, who: str) -> None:
    wrong: list[str] = []
    before = stage.snapshots.take()
    for operation in stage.operations:
        status, body = stage.ask(who, operation)
        if operation.name in MAY[who]:
            if status >= 400 and not (body and operation.name == "POST /archives" and status == 400):
                wrong.append(f"{operation.name} → {status}: it is theirs ({body[:200]!r})")
            before = stage.snapshots.take()
        else:
            wrong += refused(stage, who, operation, status, body, before)
        if who not in SEES_TEAM:
            told = {
                name
                for name, it in stage.ours.items()
                if len(it) > 1
                and name
                not in ("step", "section", "release", "tenant", "namespace", "published_name", "system", "exactly")
                and it.encode() in body
                and it not in operation.path
            }
            sent = operation.path + str(BODIES.get(operation.name)) + str(FORMS.get(operation.name))
            said = {it for name, it in stage.ours.items() if f"{{{name}}}" in sent}
            asked = {name for name, it in stage.ours.items() if any(it in each for each in said)}
            values = body.replace(b'"team":', b"")  # the name of a field of modules
            is_team_told = re.search(rb"\bteam\b", values) is not None and "team" not in QUERIES.get(operation.name, "")
            if told - asked or is_team_told:
                wrong.append(f"{operation.name} → {status} tells of {told - asked or 'team'}: {body[:300]!r}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("who", ["foreign owner", "foreign viewer", "runner", "engine", "executor"])
def test_naming_an_organization_opens_nothing_of_it(stage: Stage, who: str) -> None:
    """To somebody without a role in it, an organization and one that does not exist are the same."""
    wrong: list[str] = []
    before = stage.snapshots.take()
    named = "elsewhere" if who in ("runner", "engine", "executor") else "default"
    for operation in stage.operations:
        status, body = stage.ask(who, operation, named)
        if status not in ({303, 401, 404} if operation.is_page else {401, 404}):
            wrong.append(f"{operation.name} → {status} ({body[:200]!r})")
        if not operation.is_page and body.replace(named.encode(), b"X") != stage.ask(who, operation, "missing")[
            1
        ].replace(b"missing", b"X"):
            wrong.append(f"{operation.name} answers differently for an organization that does not exist")
    assert not wrong, "\n".join(wrong)
    assert stage.snapshots.take() == before


@pytest.mark.parametrize("who", ROLES)
def test_a_role_ends_where_the_next_one_begins(stage: Stage, who: str) -> None:
    """Who runs jobs does not approve them; who approves them decides about no state, no runner and no access."""
    wrong: list[str] = []
    before = stage.snapshots.take()
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
    after = stage.snapshots.take()
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
    assert {name for allowed in (MAY | ROLES).values() for name in allowed} | set(BODIES) | set(FORMS) <= names


def test_a_snapshot_shows_what_a_request_has_changed(stage: Stage) -> None:
    """The tests above would find nothing if it did not."""
    before = stage.snapshots.take()
    assert stage.snapshots.take() == before
    stage.system.api.post("/tokens", {"name": "one more"})
    assert stage.snapshots.take() != before
