"""One request cancels many jobs: those that match and that the caller may cancel, some at a time."""

import asyncio
import time
from typing import Any

import pytest

from tests.server.application import Person, on_one
from tests.server.simulated_runner import SimulatedRunner

pytestmark = pytest.mark.feature("J9")


async def canceled(who: Person, **wanted: Any) -> dict[str, Any]:
    answer = await who.post("/api/v1/jobs/cancel", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def statuses(crew: SimulatedRunner) -> dict[str, int]:
    rows = await crew.server.db.read(lambda tx: tx.all("SELECT status, count(*) AS jobs FROM jobs GROUP BY status"))
    return {row["status"]: row["jobs"] for row in rows}


async def test_only_what_matches_is_canceled_and_what_runs_is_asked_to_end(crew: SimulatedRunner) -> None:
    net, app = await crew.world.module("net/vpc"), await crew.world.module("app/web")
    running = await crew.run(net, kind="APPLY")
    for module in (net, net, app):
        await crew.world.job(module)
    admin = crew.app.admin
    assert (await canceled(admin, count_only=True))["matching"] == 4
    assert (await canceled(admin, module="net/vpc", status="QUEUED", count_only=True))["matching"] == 2
    assert await statuses(crew) == {"CLAIMED": 1, "QUEUED": 3}
    done = await canceled(admin, module="net/vpc", mode="kill")
    assert (done["ended"], done["asked"], done["next"]) == (2, 1, None)
    assert await statuses(crew) == {"CANCELED": 2, "CLAIMED": 1, "QUEUED": 1}
    assert (await crew.world.load(running.ref.job_id)).cancel_mode == "kill"
    assert await crew.app.scalar("SELECT count(*) FROM audit WHERE action = 'job.cancel'") == 3
    again = await canceled(admin, module="net/vpc", mode="interrupt")
    assert (again["ended"], again["asked"]) == (0, 0), "it was asked for more already"
    await admin.refused("POST", "/api/v1/jobs/cancel", 404, json={"module": "no/such"})


async def test_jobs_that_were_queued_after_the_count_are_left_alone(crew: SimulatedRunner) -> None:
    module = await crew.world.module("net")
    await crew.world.job(module)
    counted = await canceled(crew.app.admin, count_only=True)
    await crew.world.job(module)
    assert (await canceled(crew.app.admin, up_to=counted["up_to"]))["ended"] == 1
    assert await statuses(crew) == {"CANCELED": 1, "QUEUED": 1}


async def test_one_cancels_only_where_one_may(crew: SimulatedRunner) -> None:
    for path in ("net/vpc", "app/web"):
        group = await crew.app.admin.made("/api/v1/groups", {"path": path.partition("/")[0]})
        await crew.world.job(await crew.world.module(path, group["id"]))
    operator = await crew.app.person("ada", "operator", "net")
    assert (await canceled(operator, count_only=True))["matching"] == 1
    assert (await canceled(operator))["ended"] == 1
    assert await statuses(crew) == {"CANCELED": 1, "QUEUED": 1}
    viewer = await crew.app.person("bob", "viewer")
    await viewer.refused("POST", "/api/v1/jobs/cancel", 403, json={})
    await operator.refused("POST", "/api/v1/jobs/cancel", 404, json={"module": "app/web"})


async def test_jobs_that_one_may_not_see_are_neither_read_nor_named(crew: SimulatedRunner) -> None:
    """`next` was the id of a job of another group, and one request read every open job of the organization."""
    net = await crew.app.admin.made("/api/v1/groups", {"path": "net"})
    operator = await crew.app.person("ada", "operator", "net")
    await crew.world.many_jobs([await crew.world.module("app")], 500)  # with ids that sort before all others
    await crew.world.job(await crew.world.module("net/vpc", net["id"]))
    done = await canceled(operator)
    assert (done["matching"], done["ended"], done["next"]) == (1, 1, None)
    assert await statuses(crew) == {"CANCELED": 1, "QUEUED": 500}


@on_one
async def test_a_thousand_queued_jobs_go_within_two_seconds_and_nobody_waits_meanwhile(crew: SimulatedRunner) -> None:
    """There was no way but one request for each job: 657 of them took 28 s."""
    await crew.world.many_jobs([await crew.world.module("net")], 1000)
    longest, requests = 0.0, 0
    began = time.monotonic()

    async def all_of_them() -> None:
        nonlocal requests
        after: str | None = ""
        while after is not None:
            after = (await canceled(crew.app.admin, status="QUEUED", after=after))["next"]
            requests += 1

    canceling = asyncio.create_task(all_of_them())
    while not canceling.done():
        asked = time.monotonic()
        await crew.app.admin.get("/api/v1/groups")
        await asyncio.sleep(0.005)
        longest = max(longest, time.monotonic() - asked)
    await canceling
    took = time.monotonic() - began
    assert await statuses(crew) == {"CANCELED": 1000}
    assert requests <= 3
    assert took < 2, f"it took {took:.1f} s"
    assert longest < 0.5, f"somebody else waited {longest:.2f} s"
