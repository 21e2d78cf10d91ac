"""Fills a server with something of everything, by its API, its services and a runner that reports to it."""

from terracrew.protocol.events import Output, OutputsRead, PlanDescribed
from terracrew.server.state.model import MAX_INLINE_BYTES
from tests.builders.deliveries import APPLIED, DONE, RUNNING, fact, log
from tests.server.application import Application
from tests.server.simulated_runner import SimulatedRunner
from tests.server.state.stored_states import content

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
    await admin.made(f"{MODULE}/jobs", {"type": "PLAN"})


async def _tree(application: Application) -> None:
    admin = application.admin
    for path in ("shop", "shop/prod"):
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
