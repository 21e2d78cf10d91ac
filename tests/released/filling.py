"""Fills a server with something of everything, by its API, its services and a runner that reports to it."""

from datetime import UTC, datetime, timedelta

import msgspec

from terracrew.api.notifications import NotificationContent
from terracrew.protocol.events import Output, OutputsRead, PlanDescribed
from terracrew.server.announcements import delivery_store
from terracrew.server.announcements import service as announcements
from terracrew.server.announcements.model import Announcement
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store as deployment_store
from terracrew.server.engines import model as engines
from terracrew.server.engines import store as engine_store
from terracrew.server.forges import fact_store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.deliveries import APPLIED, DONE, RUNNING, fact, log
from tests.server.application import Application
from tests.server.dashboard.company.kept_plans import kept_plan
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.seed import company
from tests.server.drift.checked import Checked, differs
from tests.server.forges import forge_rows
from tests.server.releases.release_rows import new_release, wheel
from tests.server.runners.connected import connect
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import content
from tests.server.tree.modules.packed_modules import packed

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}
ROOTS = ("/srv/sources",)
MODULE = "/api/v1/modules/shop%2Fprod%2Fnetwork"


async def fill(application: Application) -> None:
    admin = application.admin
    await _tree(application)
    runner = await SimulatedRunner.make(application)
    job = await admin.made(f"{MODULE}/jobs", {"type": "APPLY"})
    attempt = await runner.again(job["id"])
    await attempt.deliver(RUNNING)
    await attempt.begin()
    for serial, size in ((1, 0), (2, MAX_INLINE_BYTES), (3, 0)):
        await attempt.write(content(serial, size), serial=serial)
    outputs = {"address": Output("10.0.3.7"), "token": Output("hush", is_sensitive=True)}
    await attempt.deliver(
        APPLIED,
        log("a line of the log\n"),
        fact(OutputsRead(outputs, "ab")),
        fact(PlanDescribed("1" * 64, b"a diff")),
        DONE,
    )
    await admin.made(f"{MODULE}/jobs", {"type": "PLAN", "inputs": {"region": "us"}})
    await _company(application)
    await _uses(application)
    await _access(application)
    await _clouds(application)
    await _notifications(application)
    await _forges(application)
    await admin.made("/api/v1/runners/shop%2Fcrew/once-tokens", {})
    await _moments(runner)
    await _hold(application)


async def _moments(runner: SimulatedRunner) -> None:
    """A schedule, and a module whose last check has found drift, of which one address is muted."""
    team = await Checked.make(runner)
    await team.check(differs(), differs("aws_s3.logs"))
    until = (datetime.now(UTC) + timedelta(days=300)).isoformat()
    mute = {"module": "team/one", "address": "aws_s3.logs", "reason": "the cost team", "until": until}
    await team.admin.made("/api/v1/drift/mutes", mute)
    schedule = {"place": "team", "name": "nightly", "kind": "DRIFT", "cron": "0 3 * * *", "time_zone": "Europe/Berlin"}
    await team.admin.made("/api/v1/schedules", schedule)


async def _tree(application: Application) -> None:
    admin = application.admin
    for path in ("shop", "shop/prod", "shop/dev"):
        await admin.made("/api/v1/groups", {"path": path, "description": f"everything of {path}"})
    await admin.made(
        "/api/v1/modules",
        {
            "path": "shop/prod/network",
            "description": "the network",
            "source": SOURCE,
            "inputs": {"region": "eu", "sizes": [1, 2]},
            "environment": {"LEVEL": "debug"},
        },
    )
    secret = {"place": "shop", "name": "password", "secret": "correct horse"}
    answer = await admin.post("/api/v1/inputs", json=secret)
    assert answer.is_success, answer.text
    await admin.made("/api/v1/users", {"name": "ada"})
    account = await admin.made("/api/v1/service-accounts", {"name": "ci", "group": "shop"})
    await admin.made(f"/api/v1/service-accounts/{account['id']}/secrets", {})
    await admin.made("/api/v1/roles", {"principal": "ada", "role": "operator", "path": "shop/prod"})
    await admin.made("/api/v1/runners", {"name": "crew", "group": "shop"})


async def _company(application: Application) -> None:
    """Add jobs in every status, plans that are kept, quarantined states and modules in doubt."""
    server, user = application.server, application.admin.principal.id
    await company(server.db, server.keys, server.organization_id, user)

    async def plans(tx: Tx) -> None:
        made = Company(tx, server.organization_id, user)
        made.number = 700
        await kept_plan(made, server.keys, "platform/edge/planned")

    await server.db.write(plans)


async def _uses(application: Application) -> None:
    """Add a module from an archive that uses an output of another one, has a hook, and is applied with its group."""
    admin = application.admin
    archive = await admin.post("/api/v1/archives", content=packed(("main.tf", b"")))
    assert archive.status_code == 201, archive.text
    source = {"kind": "archive", "archive_id": archive.json()["id"]}
    await admin.made("/api/v1/modules", {"path": "shop/dev/user", "source": source, "engine_version": "~> 1.12"})
    output = {"module": "shop/prod/network", "output": "address"}
    answer = await admin.post("/api/v1/inputs", json={"place": "shop/dev/user", "name": "address", "output": output})
    assert answer.is_success, answer.text
    steps = {"before": {"command": ["true"]}, "flags": {"tofu": ["-parallelism=5"]}}
    answer = await admin.put("/api/v1/groups/shop%2Fdev/steps/plan", json=steps)
    assert answer.is_success, answer.text
    await admin.made("/api/v1/groups/shop%2Fdev/runs", {"type": "APPLY"})


async def _hold(application: Application) -> None:
    """Hold the server and release it, as after a failover."""
    for path in ("hold", "hold/release"):
        answer = await application.admin.post(
            f"/api/v1/{path}", json={"reason": "a failover"} if path == "hold" else {}
        )
        assert answer.is_success, answer.text


async def _access(application: Application) -> None:
    """Add trust in another issuer, a token that publishes releases, and a second organization."""
    admin = application.admin
    [account] = await admin.listed("/api/v1/service-accounts")
    trust = {"issuer": "https://ci.example.com", "claims": {"sub": "robot"}}
    await admin.made(f"/api/v1/service-accounts/{account['id']}/trust-policies", trust)
    await admin.made("/api/v1/release-tokens", {"name": "ci"})
    await admin.made("/api/v1/organizations", {"name": "second"})


async def _notifications(application: Application) -> None:
    """Add channels, of which one has sent a message."""
    admin = application.admin
    hook = {"name": "ops", "kind": "webhook", "url": "https://hooks.example/1", "events": ["release"]}
    made = await admin.made("/api/v1/notification-channels", hook)
    slack = {"name": "chat", "kind": "slack", "token": "xoxb-1234567890", "slack_channel": "C1", "place": "shop"}
    await admin.made("/api/v1/notification-channels", slack)
    content = NotificationContent(title="9.9.8")
    released = Announcement(event="release", organization_id=None, subject_id="rel_1", content=content)

    async def sent(tx: Tx) -> None:
        await announcements.announce(tx, released)
        [held] = await delivery_store.hold(tx, await delivery_store.due(tx, 1), 60)
        done = msgspec.structs.replace(held, status="DELIVERED", next_at=None, sending_until=None, ended_at=tx.moment)
        assert await delivery_store.save(tx, held, done)

    await application.server.db.write(sent)
    assert (await admin.get(f"/api/v1/notification-channels/{made['channel']['id']}/deliveries")).json()["items"]


async def _forges(application: Application) -> None:
    """Add a connection to a forge, with a repository, and what the forge has told of a pull request."""
    admin = application.admin
    new = {"name": "git", "kind": "gitea", "base_url": "https://git.example.com", "token": "t0ken", "group": "shop"}
    await admin.made("/api/v1/forges", new)
    repository = await admin.made("/api/v1/forges/shop%2Fgit/repositories", {"name": "acme/network"})

    async def told(tx: Tx) -> None:
        await fact_store.save_answers(tx, repository["id"], [forge_rows.pull_request()], 1)
        await fact_store.save_comments(tx, repository["id"], [forge_rows.comment()])

    await application.server.db.write(told)


async def _clouds(application: Application) -> None:
    """Add a runner in a cloud, a release, and a roll-out that is to update a runner."""
    admin, db = application.admin, application.server.db
    role = {"name": "aws", "role_arn": "arn:aws:iam::123456789012:role/terracrew", "region": "eu-central-1"}
    await admin.made("/api/v1/cloud-identities", role)
    settings = {"image": "registry.example.com/runner:1"}
    made = await admin.made("/api/v1/runners/deploy", {"name": "burst", "identity": "aws", "settings": settings})

    async def deployed(tx: Tx) -> None:
        before = await deployment_store.get(tx, made["runner"]["id"])
        assert before is not None
        await deployment_store.save(tx, before, msgspec.structs.replace(before, status="deployed"))
        await releases.publish(tx, SYSTEM, new_release("9.9.9", artifacts=[wheel("9.9.9")]))

    await db.write(deployed)
    outdated = await admin.made("/api/v1/runners", {"name": "outdated"})
    instance = await connect(application, outdated["id"], "one", version="0.1.0-rc.1", is_self_updating=True)
    has = engines.available({"tofu": "1.12.6"}, {}, [])
    await db.write(lambda tx: engine_store.set_available(tx, {instance: has}))
    await admin.made("/api/v1/rollouts", {})
