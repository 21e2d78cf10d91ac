"""Every operation of the API that changes something leaves an entry in the audit, whatever noun it is about."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from terracrew.api.notifications import NotificationContent
from terracrew.server.announcements import service as announcements
from terracrew.server.announcements.model import Announcement
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store as deployment_store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from tests.forges.fake_gitea import FakeGitea
from tests.server.application import Application, Person, on_one
from tests.server.dashboard.company.kept_plans import kept_plan, planned_group
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.seed import approval, company
from tests.server.dashboard.visitor import Visitor, logged_in
from tests.server.releases.release_rows import new_release, wheel
from tests.server.runners.connected import connect
from tests.server.tree.modules.packed_modules import packed

API = "/api/v1"
SOURCE = {"kind": "local", "path": "/srv/sources/m"}
ELSEWHERE = {
    "PUT /uploads": "begins an upload; what is made of it is recorded",
    "PUT /uploads/{upload}/{index}": "is a part of an upload",
    "PUT /provisioning": "needs a login; `scim/test_groups.py` looks at what is recorded",
    "DELETE /provisioning": "needs a login; `scim/test_groups.py` looks at what is recorded",
    "POST /provisioning/people": "needs a login; `scim/test_groups.py` looks at what is recorded",
    "DELETE /provisioning/people/{user}": "needs a login; `scim/test_groups.py` looks at what is recorded",
    "POST /releases/{release}/files": "is an upload; the release that is made of it is recorded",
    "POST /modules/{module}/state": "needs the lock; `api/test_state_backend.py` looks at what is recorded",
    "POST /policies/test": "stores nothing",
    "POST /policies/{policy}/test": "stores nothing",
    "POST /policies/{policy}/activate": "needs Open Policy Agent; `policies/test_service.py` looks at what is recorded",
    "POST /policies/{policy}/retire": "needs Open Policy Agent; `policies/test_service.py` looks at what is recorded",
    "POST /discovery-rules/preview": "needs a repository; `discovery/test_previews.py` looks at what is recorded",
    "POST /discovery-rules/{rule}/preview": "needs a repository; `discovery/test_previews.py` looks at what is recorded",
    "POST /pull-requests/{pull_request}/plan": "needs a repository; `pull_requests/test_service.py` looks at what is recorded",
    "POST /pull-requests/{pull_request}/apply": "needs a repository; `pull_requests/test_service.py` looks at what is recorded",
    "POST /pull-requests/{pull_request}/cancel": "needs a repository; `pull_requests/test_service.py` looks at what is recorded",
    "POST /pull-requests/{pull_request}/allow": "needs a repository; `pull_requests/test_service.py` looks at what is recorded",
    "POST /identity-providers/{provider}/dry-run": "changes nothing",
    "POST /cloud-identities/{identity}/report": "asks a cloud, and keeps what it answers",
}
"""The operations that this test does not try, each with the reason."""


class Changes:
    """Calls operations one after another, and keeps which ones it called and which left no entry."""

    def __init__(self, application: Application, session: Visitor) -> None:
        self.application, self._session = application, session
        self.done: set[str] = set()
        self.silent: list[str] = []

    async def __call__(self, operation: str, body: Any = None, *values: str) -> Any:
        """Call an operation with the values of its path's parameters; return its answer."""
        self.done.add(operation)
        path = operation.partition(" ")[2]
        for value in values:
            before, _, rest = path.partition("{")
            path = before + value.replace("/", "%2F") + rest.partition("}")[2]
        given: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
        return await self._call(operation, path, given)

    async def removal(self, operation: str, query: dict[str, str]) -> None:
        """Call an operation that takes what it removes from its query."""
        self.done.add(operation)
        await self._call(operation, operation.partition(" ")[2], {"params": query})

    async def _call(self, operation: str, path: str, given: dict[str, Any]) -> Any:
        method = operation.partition(" ")[0]
        before = await self._entries()
        answer = await self._session.request(method, API + path, **given)
        assert answer.status_code < 300, f"{operation}: {answer.text}"
        if await self._entries() == before:
            self.silent.append(operation)
        return answer.json() if answer.content else None

    async def _entries(self) -> int:
        return await self.application.scalar(
            "SELECT count(*) FROM audit WHERE actor_id = :id", id=self.application.admin.principal.id
        )


@on_one
@pytest.mark.feature("X3.audit")
async def test_every_operation_that_changes_something_leaves_an_entry(application: Application) -> None:
    server, admin = application.server, application.admin
    jobs = await company(server.db, server.keys, server.organization_id, admin.principal.id)
    jobs["unwanted"] = await server.db.write(lambda tx: _waiting(tx, application))
    jobs["planned"] = await server.db.write(lambda tx: _planned(tx, application))
    jobs["planned run"] = await server.db.write(lambda tx: _planned_group(tx, application))
    elena = await application.person("elena")
    session = await logged_in(application)
    await session.see("/dashboard/account")
    session.headers["X-CSRF-Token"] = session.csrf
    change = Changes(application, session)
    await _tree(change)
    await _runs(change, application, jobs)
    await _runners(change)
    await _deployments(change, application)
    await _notifications(change, application)
    await _forges(change, application)
    await _policies(change)
    await _registry(change)
    await _schedules(change)
    await _drift(change)
    await _access(change, application, elena)
    document = (await admin.get("/openapi.json")).json()
    operations = {
        f"{method.upper()} {path.removeprefix(API)}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith(API) and method != "get"
    }
    assert operations - change.done - ELSEWHERE.keys() == set(), "call each new operation here"
    assert change.silent == []


async def _waiting(tx: Tx, application: Application) -> str:
    """Make another job that waits for an approval."""
    made = Company(tx, application.server.organization_id, application.admin.principal.id)
    made.number = 600
    instance = await tx.one("SELECT id, runner_id FROM instances WHERE name = 'net-a'")
    assert instance is not None
    _, job = await approval(made, instance["runner_id"], instance["id"], "platform/edge/unwanted")
    return job


async def _planned(tx: Tx, application: Application) -> str:
    """Make a PLAN job whose plan can be applied."""
    made = Company(tx, application.server.organization_id, application.admin.principal.id)
    made.number = 700
    _, job = await kept_plan(made, application.server.keys, "platform/edge/planned")
    return job


async def _planned_group(tx: Tx, application: Application) -> str:
    """Make a run of a group whose plans can be applied."""
    made = Company(tx, application.server.organization_id, application.admin.principal.id)
    made.number = 750
    return (await planned_group(made, application.server.keys))[1]


async def _tree(change: Changes) -> None:
    await change("POST /groups", {"path": "made"})
    await change("PATCH /groups/{group}", {"description": "new"}, "made")
    await change("POST /archives", packed(("main.tf", b"")))
    await change("POST /modules", {"path": "made/module", "source": SOURCE})
    await change("PATCH /modules/{module}", {"description": "new"}, "made/module")
    await change("POST /modules/{module}/move", {"path": "made/renamed"}, "made/module")
    await change("POST /modules/{module}/move", {"path": "made/module"}, "made/renamed")
    for place in ("group", "module"):
        path = "made" if place == "group" else "made/module"
        await change(f"PUT /{place}s/{{{place}}}/steps/{{step}}", {"flags": {"tofu": ["-parallelism=5"]}}, path, "plan")
        await change(f"DELETE /{place}s/{{{place}}}/steps/{{step}}", None, path, "plan")
    await change("POST /inputs", {"place": "made", "name": "region", "secret": "far away"})
    await change.removal("DELETE /inputs", {"place": "made", "name": "region"})
    await change("POST /modules", {"path": "made/user", "source": SOURCE})
    output = {"module": "made/module", "output": "id"}
    await change("POST /inputs", {"place": "made/user", "name": "module_id", "output": output})
    uses = await change.application.admin.listed(f"{API}/modules/made%2Fmodule/dependencies", direction="used_by")
    await change("DELETE /modules/{module}/dependencies/{dependency}", None, "made/module", uses[0]["id"])
    await change("DELETE /modules/{module}", None, "made/user")
    run = await change("POST /groups/{group}/runs", {"type": "APPLY"}, "made")
    await change("POST /groups/{group}/runs/{run}/stop", None, "made", run["id"])
    await change("POST /groups/{group}/runs/{run}/resume", None, "made", run["id"])
    await change("DELETE /modules/{module}", None, "made/module")
    await change("DELETE /groups/{group}", None, "made")


async def _runs(change: Changes, application: Application, jobs: dict[str, str]) -> None:
    made = await change("POST /modules/{module}/jobs", {"type": "PLAN"}, "hello")
    await change("PATCH /jobs/{job}", {"priority": 5}, made["id"])
    await change("POST /jobs/{job}/cancel", {}, made["id"])
    await change("POST /jobs/{job}/rerun", {}, made["id"])
    await change("POST /jobs/cancel", {"module": "hello"})
    await change("POST /jobs/{job}/attempts/{attempt}/gone", {}, jobs["lost"], "1")
    await change("POST /jobs/{job}/apply", {}, jobs["planned"])
    await change("POST /groups/{group}/runs/{run}/apply", None, "shop", jobs["planned run"])
    await change("POST /jobs/{job}/approve", {"plan": 1}, jobs["asking"])
    await change("POST /jobs/{job}/decline", {"plan": 1, "reason": "no"}, jobs["unwanted"])
    states = await application.server.db.read(
        lambda tx: tx.all("SELECT id FROM states WHERE status = 'quarantined' ORDER BY event")
    )
    await change("POST /states/{version}/discard", {}, states[1]["id"])
    await change("POST /states/{version}/adopt", {}, states[0]["id"])
    await change("POST /jobs/{job}/replan", {"plan": 2}, jobs["doubt"])
    await change("POST /modules", {"path": "brought", "source": SOURCE})
    first = await change("POST /modules/{module}/states", b'{"version":4,"serial":1,"lineage":"a"}', "brought")
    await change("POST /modules/{module}/states", b'{"version":4,"serial":2,"lineage":"a"}', "brought")
    await change("POST /states/{version}/restore", None, first["id"])
    await change("POST /modules/{module}/lock", {"reason": "work"}, "brought")
    await change("DELETE /modules/{module}/lock", None, "brought")
    engine = {"ID": "c1", "Operation": "OperationTypeApply"}
    await change("POST /modules/{module}/state/lock", engine, "brought")
    await change("DELETE /modules/{module}/state/lock", engine, "brought")


async def _runners(change: Changes) -> None:
    await change("POST /runners", {"name": "created"})
    await change("POST /runners/register", {"name": "registered"})
    await change("POST /runners/{runner}/reregister", None, "registered")
    await change("POST /runners/{runner}/alerts/acknowledge", {}, "registered")
    once = await change("POST /runners/{runner}/once-tokens", {}, "registered")
    await change("DELETE /runners/{runner}/once-tokens/{once_token}", None, "registered", once["id"])
    await change("PATCH /runners/{runner}", {"is_disabled": True}, "registered")
    await change("POST /runners/{runner}/drain", {}, "registered")
    await change("POST /runners/{runner}/assignments", {"place": "platform"}, "registered")
    await change("DELETE /runners/{runner}/assignments", {"place": "platform"}, "registered")
    await change("DELETE /runners/{runner}", None, "registered")


async def _deployed(tx: Tx, runner_id: str) -> None:
    """Note that a deployment has been made, as its job does."""
    before = await deployment_store.get(tx, runner_id)
    assert before is not None
    await deployment_store.save(tx, before, msgspec.structs.replace(before, status="deployed"))


async def _notifications(change: Changes, application: Application) -> None:
    hook = {"name": "ops", "kind": "webhook", "url": "https://127.0.0.1:1/x", "events": ["release"]}
    made = await change("POST /notification-channels", hook)
    await change("PATCH /notification-channels/{channel}", {"events": ["release", "drift"]}, "ops")
    await change("POST /notification-channels/{channel}/secret", {}, "ops")
    await change("POST /notification-channels/{channel}/test", {}, "ops")
    content = NotificationContent(title="1.2.3")
    released = Announcement(event="release", organization_id=None, subject_id="rel_1", content=content)
    await application.server.db.write(lambda tx: announcements.announce(tx, released))
    message = await application.scalar(
        "SELECT notification_id FROM notification_deliveries WHERE channel_id = :id", id=made["channel"]["id"]
    )
    again = "POST /notification-channels/{channel}/deliveries/{notification}/send-again"
    await change(again, {}, "ops", message)
    await change("DELETE /notification-channels/{channel}", None, "ops")


async def _forges(change: Changes, application: Application) -> None:
    new = {"name": "git", "kind": "gitea", "base_url": "http://127.0.0.1:1", "token": "t"}
    made = await change("POST /forges", new)
    await change("PATCH /forges/{forge}", {"token": "u"}, "git")
    await change("POST /forges/{forge}/test", {}, "git")
    await change("POST /forges/{forge}/hook-secret", {}, "git")
    added = await change("POST /forges/{forge}/repositories", {"name": "acme/network"}, "git")
    await change("POST /forges/{forge}/repositories/{repository}/hook", {}, "git", added["id"])
    sender = application.stranger()
    secret = (await change("POST /forges/{forge}/hook-secret", {}, "git"))["secret"]
    body = b'{"number": 1, "repository": {"full_name": "acme/network"}}'
    answer = await sender.post(
        f"/hooks/{made['id']}", content=body, headers=FakeGitea().signed("pull_request", secret, body)
    )
    assert answer.status_code == 202
    delivery = await application.scalar("SELECT id FROM forge_deliveries WHERE connection_id = :id", id=made["id"])
    await change("POST /forges/{forge}/deliveries/{delivery}/handle-again", {}, "git", delivery)
    await change("DELETE /forges/{forge}/repositories/{repository}", None, "git", added["id"])
    await change("POST /forges/{forge}/users", {"forge_user": "ada", "forge_user_id": "7", "user": "elena"}, "git")
    await change("DELETE /forges/{forge}/users/{forge_user}", None, "git", "7")
    await change("POST /discovery-rules", {"name": "all", "url": "ssh://git@127.0.0.1/acme/network"})
    await change("PATCH /discovery-rules/{rule}", {"exclude": ["test"]}, "all")
    await change("POST /discovery-rules/{rule}/run", {}, "all")
    await change("DELETE /discovery-rules/{rule}", None, "all")
    await change("DELETE /forges/{forge}", None, "git")


async def _policies(change: Changes) -> None:
    rego = 'package terracrew\n\ndeny contains "no" if input.plan.no\n'
    await change("POST /policies", {"name": "rule", "rego": rego})
    await change("PATCH /policies/{policy}", {"enforcement": "advisory"}, "rule")
    await change("POST /policies/{policy}/versions", {"rego": rego.replace("no", "never")}, "rule")
    await change("DELETE /policies/{policy}", None, "rule")


async def _registry(change: Changes) -> None:
    await change("POST /groups", {"path": "shared"})
    await change("POST /published-modules", {"group": "shared", "name": "vpc", "system": "aws"})
    await change("PATCH /published-modules/{published}", {"description": "ours"}, "shared/vpc/aws")
    await change("PATCH /published-modules/{published}", {"url": "https://127.0.0.1/acme/vpc"}, "shared/vpc/aws")
    await change("POST /published-modules/{published}/look", {}, "shared/vpc/aws")
    archive = await change("POST /archives", packed(("main.tf", b"")))
    new = {"version": "1.0.0", "archive_id": archive["id"]}
    await change("POST /published-modules/{published}/versions", new, "shared/vpc/aws")
    withdrawn = {"is_withdrawn": True}
    await change("PATCH /published-modules/{published}/versions/{exactly}", withdrawn, "shared/vpc/aws", "1.0.0")
    await change("DELETE /published-modules/{published}", None, "shared/vpc/aws")


async def _schedules(change: Changes) -> None:
    await change("POST /modules", {"path": "scheduled", "source": SOURCE})
    wanted = {"place": "scheduled", "name": "nightly", "kind": "PLAN", "cron": "0 3 * * *"}
    made = await change("POST /schedules", wanted)
    await change("PATCH /schedules/{schedule}", {"cron": "0 4 * * *"}, made["id"])
    await change("POST /schedules/{schedule}/run", {}, made["id"])
    await change("DELETE /schedules/{schedule}", None, made["id"])


async def _drift(change: Changes) -> None:
    await change("POST /modules", {"path": "drifting", "source": SOURCE})
    await change("POST /drift/checks", {"place": "drifting"})
    until = datetime.now(UTC) + timedelta(days=7)
    mute = {"module": "drifting", "address": "aws_vpc.a", "reason": "known", "until": until.isoformat()}
    muted = await change("POST /drift/mutes", mute)
    await change("DELETE /drift/mutes/{mute}", None, muted["id"])
    await change("POST /drift/reconcile", {"module": "drifting"})


async def _deployments(change: Changes, application: Application) -> None:
    db = application.server.db
    role = "arn:aws:iam::123456789012:role/terracrew"
    for name in ("spare", "aws"):
        await change("POST /cloud-identities", {"name": name, "role_arn": role, "region": "eu-central-1"})
    await change("PATCH /cloud-identities/{identity}", {"description": "new"}, "spare")
    await change("POST /cloud-identities/{identity}/test", None, "spare")
    await change("DELETE /cloud-identities/{identity}", None, "spare")
    wanted = {"name": "burst", "identity": "aws", "settings": {"image": "registry.example.com/runner:1"}}
    made = await change("POST /runners/deploy", wanted)
    await change("POST /fleet-jobs/{fleet_job}/cancel", None, made["job"]["id"])
    await change("POST /runners/{runner}/deploy", {"capacity": 2}, "burst")
    await db.write(lambda tx: _deployed(tx, made["runner"]["id"]))
    await change("POST /runners/{runner}/wake", {}, "burst")
    await change("POST /runners/{runner}/destroy", {}, "burst")
    runner = await application.admin.made("/api/v1/runners", {"name": "outdated"})
    await connect(application, runner["id"], "one", version="0.9.1", is_self_updating=True)
    release = new_release("0.9.2", artifacts=[wheel("0.9.2")])
    await db.write(lambda tx: releases.publish(tx, SYSTEM, release))
    rollout = await change("POST /rollouts", {})
    for word in ("pause", "resume", "stop"):
        await change(f"POST /rollouts/{{rollout}}/{word}", {}, rollout["id"])
    await change("POST /runners/{runner}/update", {}, "outdated")


async def _access(change: Changes, application: Application, elena: Person) -> None:
    await change("POST /me/link")
    await change(
        "POST /me/password", {"new_password": "a long enough one", "current_password": "correct horse battery"}
    )
    token = await change("POST /tokens", {"name": "laptop"})
    await change("DELETE /tokens/{token_id}", None, token["id"])
    await change("POST /users", {"name": "marta"})
    await change("PATCH /users/{user}", {"name": "martha"}, "marta")
    await change("POST /users/{user}/reset", {}, "martha")
    await change("DELETE /users/{user}", None, "martha")
    for operation in ("DELETE /users/{user}/sessions/{session_id}", "DELETE /users/{user}/sessions"):
        await logged_in(application, "elena")
        session = await application.scalar(
            "SELECT sessions.id FROM sessions JOIN users ON users.id = sessions.user_id WHERE users.name = 'elena'"
        )
        await change(operation, None, *(("elena", session) if "session_id" in operation else ("elena",)))
    await application.as_user(elena.principal)
    token = await application.scalar(
        "SELECT api_tokens.id FROM api_tokens JOIN users ON users.id = api_tokens.user_id WHERE users.name = 'elena'"
    )
    await change("DELETE /users/{user}/tokens/{token_id}", None, "elena", token)
    provider = (await change("POST /identity-providers", {"name": "Okta", "issuer": "https://acme.okta.com"}))["id"]
    await change("PATCH /identity-providers/{provider}", {"client_id": "crew", "is_enabled": True}, provider)
    rule = await change("POST /identity-providers/{provider}/rules", {"value": "ops", "role": "viewer"}, provider)
    await change("DELETE /identity-providers/{provider}/rules/{mapping_rule}", None, provider, rule["id"])
    linked = await change("POST /identity-providers/{provider}/people", {"subject": "00u1", "user": "elena"}, provider)
    await change("DELETE /identity-providers/{provider}/people/{person}", None, provider, linked["id"])
    await change("PATCH /login-policy", {"is_single_sign_on_required": True})
    await change("DELETE /identity-providers/{provider}", None, provider)
    account = (await change("POST /service-accounts", {"name": "ci"}))["id"]
    secret = await change("POST /service-accounts/{account_id}/secrets", {}, account)
    trust = {"issuer": "https://ci.example.com", "claims": {"sub": "robot"}}
    policy = await change("POST /service-accounts/{account_id}/trust-policies", trust, account)
    await change("DELETE /service-accounts/{account_id}/trust-policies/{policy_id}", None, account, policy["id"])
    await change("PATCH /service-accounts/{account_id}", {"is_disabled": True}, account)
    await change("DELETE /service-accounts/{account_id}/secrets/{secret_id}", None, account, secret["id"])
    await change("DELETE /service-accounts/{account_id}", None, account)
    role = await change("POST /roles", {"principal": "elena", "role": "viewer"})
    await change("DELETE /roles/{role_id}", None, role["id"])
    await change("POST /organizations", {"name": "second"})
    await change("PATCH /organizations/{organization}", {"name": "third"}, "second")
    await change("DELETE /organizations/{organization}", None, "third")
    await change("POST /releases", {"version": "0.0.1"})
    await change("POST /releases/{release}/withdraw", {"reason": "broken"}, "0.0.1")
    made = await change("POST /release-tokens", {"name": "ci"})
    await change("DELETE /release-tokens/{release_token}", None, made["id"])
    await change("POST /hold", {"reason": "a failover"})
    await change("POST /hold/release", {})
    await change("POST /rekey")
    await change("DELETE /rekey")
