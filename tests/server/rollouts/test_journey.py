"""A publication reaches three cloud-hosted runners through real jobs of the fleet, with a cloud in memory: a failure stops it, and
it goes on after the repair."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from terracrew.server.app import fleet_handlers
from terracrew.server.cloud_hosted import deploy_jobs
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store as deployments
from terracrew.server.fleet_jobs.loop import FleetJobs
from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.rollouts.loop import Rollouts
from tests.builders.job_rows import JobRows, change_runners, insert_instance
from tests.server.application import Application
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.fleet_jobs.simulated_fleet import PlayedRunner
from tests.server.releases.release_rows import new_release, runner_image

pytestmark = pytest.mark.feature("V2.rollouts", "V2.outdated", "V3.update")
OLD, NEW = "0.9.1", "0.9.2"
API = "/api/v1/rollouts/latest"


class Cloud:
    """Plays the fleet process and the instances: each that is started says hello, and passes its no-op job unless it is broken."""

    def __init__(self, application: Application) -> None:
        self.server, self.process, self.simulated = application.server, PlayedRunner(), SimulatedCloud()
        self.broken: set[str] = set()
        self.order: list[str] = []
        """The paths of the runners in the order in which they were updated."""

    async def play(self) -> None:
        number = 0
        while True:
            number += 1
            job = await self.process.given(number)
            path, runner_id = await self._target(job.job_id)
            self.order.append(path)
            count = len(self.simulated.started)
            self.process.end(job, cluster="arn:cluster", task_definition=f"arn:definition:{number}")
            while len(self.simulated.started) == count:
                await asyncio.sleep(0.01)
            passes = path not in self.broken
            said = {
                "name": self.simulated.started[-1],
                "version": NEW,
                "is_on_trial": not passes,
                "is_draining": not passes,
                "trial_passed": passes,
                "trial_words": "" if passes else "OpenTofu 1.12.0 did not run",
            }
            await self.server.db.write(lambda tx, id_=runner_id, said=said: insert_instance(tx, id_, **said))

    async def _target(self, job_id: str) -> tuple[str, str]:
        sql = "SELECT target_name, target_id FROM fleet_jobs WHERE id = :id"
        row = await self.server.db.read(lambda tx: tx.one(sql, id=job_id))
        assert row is not None
        return row["target_name"], row["target_id"]


@pytest.fixture
async def cloud(application: Application, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cloud]:
    monkeypatch.setattr(deploy_jobs, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(deploy_jobs, "WATCH_SECONDS", 0.05)
    played, server = Cloud(application), application.server
    handlers = fleet_handlers(server.settings, server.keys, played.simulated)
    loops = (
        FleetJobs(server.db, server.id, played.process, handlers).run(),
        Rollouts(server.db, server.rollout_rules).run(),
        played.play(),
    )
    tasks = [asyncio.create_task(each) for each in loops]
    yield played
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        assert isinstance(result, asyncio.CancelledError), result


async def deployed(application: Application, name: str) -> None:
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    runner_id = await cloud_runner(rows)
    await change_runners(rows.db, runner_id, path=name, name=name)

    async def work(tx: Tx) -> None:
        before = await deployments.hold(tx, runner_id)
        assert before is not None
        await deployments.save(tx, before, replace(before, version=OLD, facts={"cluster": "arn:cluster"}))

    await application.server.db.write(work)


async def test_a_publication_reaches_the_runners_and_stops_at_a_failure(application: Application, cloud: Cloud) -> None:
    admin = application.admin
    for name in ("a", "b", "c"):
        await deployed(application, name)
    cloud.broken.add("b")
    release = new_release(NEW, artifacts=[runner_image(NEW)])
    await application.server.db.write(lambda tx: releases.publish(tx, SYSTEM, release))

    async def until(status: str) -> dict[str, Any]:
        async with asyncio.timeout(30):
            while (found := (await admin.get(API)).json()).get("status") != status:
                await asyncio.sleep(0.02)
        return found

    stopped = await until("stopped")
    assert stopped["is_automatic"]
    assert [(each["path"], each["status"]) for each in stopped["runners"]] == [
        ("a", "updated"),
        ("b", "failed"),
        ("c", "waiting"),
    ]
    assert "OpenTofu 1.12.0 did not run" in stopped["stop_reason"]
    shown = {each["name"]: (each["version"], each["is_outdated"]) for each in await admin.listed("/api/v1/runners")}
    assert shown["a"] == (NEW, False)
    assert shown["c"] == (OLD, True)
    cloud.broken.clear()
    await admin.post(f"{API}/resume")
    done = await until("done")
    assert {each["status"] for each in done["runners"]} == {"updated"}
    assert cloud.order == ["a", "b", "b", "c"], "one job for each, and one more for the runner that failed"
