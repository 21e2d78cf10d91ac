"""One request cancels many jobs: those that match and that the caller may cancel, some at a time."""

import asyncio
import time
from typing import Any

import pytest

from tests.server.application import Person, on_one
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("J9.modes")


async def canceled(who: Person, **wanted: Any) -> dict[str, Any]:
    answer = await who.post("/api/v1/jobs/cancel", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def statuses(runner: SimulatedRunner) -> dict[str, int]:
    rows = await runner.server.db.read(lambda tx: tx.all("SELECT status, count(*) AS jobs FROM jobs GROUP BY status"))
    return {row["status"]: row["jobs"] for row in rows}


async def test_only_what_matches_is_canceled_and_what_runs_is_asked_to_end(runner: SimulatedRunner) -> None:
    net, app = await runner.rows.module("net/vpc"), await runner.rows.module("app/web")
    running = await runner.run(net, kind="APPLY")
    for module in (net, net, app):
        await runner.rows.job(module)
    admin = runner.app.admin
    assert (await canceled(admin, count_only=True))["matching"] == 4
    assert (await canceled(admin, module="net/vpc", status="QUEUED", count_only=True))["matching"] == 2
    assert await statuses(runner) == {"CLAIMED": 1, "QUEUED": 3}
    done = await canceled(admin, module="net/vpc", mode="kill")
    assert (done["ended"], done["asked"], done["next"]) == (2, 1, None)
    assert await statuses(runner) == {"CANCELED": 2, "CLAIMED": 1, "QUEUED": 1}
    assert (await runner.rows.load(running.ref.job_id)).cancel_mode == "kill"
    assert await runner.app.scalar("SELECT count(*) FROM audit WHERE action = 'job.cancel'") == 3
    again = await canceled(admin, module="net/vpc", mode="interrupt")
    assert (again["ended"], again["asked"]) == (0, 0), "it was asked for more already"
    await admin.refused("POST", "/api/v1/jobs/cancel", 404, json={"module": "no/such"})


async def test_jobs_that_were_queued_after_the_count_are_left_alone(runner: SimulatedRunner) -> None:
    module = await runner.rows.module("net")
    await runner.rows.job(module)
    counted = await canceled(runner.app.admin, count_only=True)
    await runner.rows.job(module)
    assert (await canceled(runner.app.admin, up_to=counted["up_to"]))["ended"] == 1
    assert await statuses(runner) == {"CANCELED": 1, "QUEUED": 1}


async def test_one_cancels_only_where_one_may(runner: SimulatedRunner) -> None:
    for path in ("net/vpc", "app/web"):
        group = await runner.app.admin.made("/api/v1/groups", {"path": path.partition("/")[0]})
        await runner.rows.job(await runner.rows.module(path, group["id"]))
    operator = await runner.app.person("ada", "operator", "net")
    assert (await canceled(operator, count_only=True))["matching"] == 1
    assert (await canceled(operator))["ended"] == 1
    assert await statuses(runner) == {"CANCELED": 1, "QUEUED": 1}
    viewer = await runner.app.person("bob", "viewer")
    await viewer.refused("POST", "/api/v1/jobs/cancel", 403, json={})
    await operator.refused("POST", "/api/v1/jobs/cancel", 404, json={"module": "app/web"})


async def test_jobs_that_one_may_not_see_are_neither_read_nor_named(runner: SimulatedRunner) -> None:
    """`next` was the id of a job of another group, and one request read every open job of the organization."""
    net = await runner.app.admin.made("/api/v1/groups", {"path": "net"})
    operator = await runner.app.person("ada", "operator", "net")
    await runner.rows.many_jobs([await runner.rows.module("app")], 500)  # with ids that sort before all others
    await runner.rows.job(await runner.rows.module("net/vpc", net["id"]))
    done = await canceled(operator)
    assert (done["matching"], done["ended"], done["next"]) == (1, 1, None)
    assert await statuses(runner) == {"CANCELED": 1, "QUEUED": 500}


@on_one
async def test_a_thousand_queued_jobs_go_within_two_seconds_and_nobody_waits_meanwhile(runner: SimulatedRunner) -> None:
    """There was no way but one request for each job: 657 of them took 28 s."""
    await runner.rows.many_jobs([await runner.rows.module("net")], 1000)
    longest, requests = 0.0, 0
    began = time.monotonic()

    async def all_of_them() -> None:
        nonlocal requests
        after: str | None = ""
        while after is not None:
            after = (await canceled(runner.app.admin, status="QUEUED", after=after))["next"]
            requests += 1

    canceling = asyncio.create_task(all_of_them())
    while not canceling.done():
        asked = time.monotonic()
        await runner.app.admin.get("/api/v1/groups")
        await asyncio.sleep(0.005)
        longest = max(longest, time.monotonic() - asked)
    await canceling
    took = time.monotonic() - began
    assert await statuses(runner) == {"CANCELED": 1000}
    assert requests <= 3
    assert took < 2, f"it took {took:.1f} s"
    assert longest < 0.5, f"somebody else waited {longest:.2f} s"
