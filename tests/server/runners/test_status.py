"""What a runner is, by its instances; and when it may be removed."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew import ids
from terracrew.server.db.seam import Tx
from terracrew.server.runners.model import Instance, RunnerStatus, instance_status, status
from tests.server.app.world import World

ONLINE, OFFLINE, DRAINING = RunnerStatus.ONLINE, RunnerStatus.OFFLINE, RunnerStatus.DRAINING


@pytest.mark.feature("O2")
@pytest.mark.parametrize(
    ("is_connected", "is_draining", "age", "expected"),
    [
        (True, False, 0, ONLINE),
        (True, False, 60, ONLINE),
        (True, False, 61, OFFLINE),
        (False, False, 0, OFFLINE),
        (True, True, 59, DRAINING),
        (True, True, 61, OFFLINE),
        (False, True, 0, OFFLINE),
    ],
)
def test_an_instance_is_what_it_was_heard_to_be(
    is_connected: bool, is_draining: bool, age: int, expected: RunnerStatus
) -> None:
    then = datetime.fromtimestamp(1000, UTC)
    instance = Instance("ins_1", "rnr_1", "one", "1.0", 4, {}, is_connected, is_draining, then, None, then)
    assert instance_status(instance, 1000.0 + age) is expected


@pytest.mark.feature("O2")
def test_a_runner_is_what_its_best_instance_is_and_drains_when_told() -> None:
    for count in range(4):
        for instances in itertools.product(RunnerStatus, repeat=count):
            expected = ONLINE if ONLINE in instances else DRAINING if DRAINING in instances else OFFLINE
            assert status(False, instances) is expected
            # Told to drain, it drains for as long as anything of it is there.
            assert status(True, instances) is (OFFLINE if expected is OFFLINE else DRAINING)


async def connect(world: World, runner_id: str, name: str, **changes: Any) -> str:
    made = ids.new("ins")

    async def work(tx: Tx) -> None:
        values: dict[str, Any] = {"heard": tx.now, "version": "0.1.0", "is_connected": True, "is_draining": False}
        await tx.run(
            """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, version, capacity, engines, is_connected,
                                      is_draining, connected_at, heard_at)
               VALUES (:id, :runner_id, :name, 'x', 1, :version, 4, '{"tofu": "1.12.6"}', :is_connected, :is_draining,
                       :now, :heard)""",
            id=made, runner_id=runner_id, name=name, now=tx.now, **(values | changes),
        )  # fmt: skip

    await world.server.db.write(work)
    return made


@pytest.mark.feature("O2", "V1")
async def test_a_runner_shows_its_instances_and_is_found_by_its_status(world: World) -> None:
    runners = {
        name: await world.admin.made("/api/v1/runners", {"name": name}) for name in ("on", "off", "draining", "told")
    }
    await connect(world, runners["on"]["id"], "two", version="0.2.0")
    await connect(world, runners["on"]["id"], "one", is_connected=False, heard=1.0)
    await connect(world, runners["draining"]["id"], "one", is_draining=True)
    await connect(world, runners["told"]["id"], "one")
    await world.admin.post("/api/v1/runners/told/drain", json={"on": True})

    async def found(**params: str) -> set[str]:
        return {each["name"] for each in (await world.admin.get("/api/v1/runners", params=params)).json()["items"]}

    assert await found(status="ONLINE") == {"on"}
    assert await found(status="OFFLINE") == {"off"}
    assert await found(status="DRAINING") == {"draining", "told"}
    assert await found() == set(runners)
    await world.admin.refused("GET", "/api/v1/runners", 400, params={"status": "GONE"})
    shown = (await world.admin.get("/api/v1/runners/on")).json()
    assert (shown["status"], shown["version"]) == ("ONLINE", "0.2.0")
    assert shown["last_seen_at"].startswith("20")
    assert [(each["name"], each["status"]) for each in shown["instances"]] == [("one", "OFFLINE"), ("two", "ONLINE")]
    assert shown["instances"][0]["engines"] == {"tofu": "1.12.6"}


@pytest.mark.feature("R7")
async def test_a_connected_runner_is_drained_before_it_is_removed(world: World) -> None:
    made = await world.admin.made("/api/v1/runners", {"name": "r"})
    await connect(world, made["id"], "one")
    assert "drain it first" in await world.admin.refused("DELETE", "/api/v1/runners/r", 409)
    await world.admin.post("/api/v1/runners/r/drain", json={"on": True})
    with world.server.db.listen("access") as woken:
        assert (await world.admin.delete("/api/v1/runners/r")).status_code == 204
        assert ("access", made["id"]) in await woken.get(5)
    assert await world.scalar("SELECT count(*) FROM instances") == 0
    assert await world.scalar("SELECT count(*) FROM assignments") == 0


@pytest.mark.feature("R7")
async def test_force_skips_the_draining_and_never_a_job(world: World) -> None:
    made = await world.admin.made("/api/v1/runners", {"name": "r"})
    instance = await connect(world, made["id"], "one")
    module = await world.admin.made(
        "/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources"}}
    )

    async def work(tx: Tx) -> None:
        await tx.run(
            """INSERT INTO jobs (id, organization_id, module_id, number, type, status, runner_id, instance_id, source,
                                 created_by, created_at, queued_at)
               VALUES (:id, :organization_id, :module_id, 17, 'PLAN', 'PROCESSING', :runner_id, :instance_id, '{}',
                       'test', :now, :now)""",
            id=ids.new("job"), organization_id=world.server.organization_id, module_id=module["id"],
            runner_id=made["id"], instance_id=instance, now=tx.now,
        )  # fmt: skip

    await world.server.db.write(work)
    shown = (await world.admin.get("/api/v1/runners/r")).json()
    assert (shown["jobs"], shown["instances"][0]["jobs"]) == (1, 1)
    words = await world.admin.refused("DELETE", "/api/v1/runners/r", 409, params={"force": True})
    assert "still runs 1 jobs (#17)" in words
    await world.server.db.write(lambda tx: tx.run("UPDATE jobs SET status = 'FAILED', finished_at = 1"))
    assert (await world.admin.delete("/api/v1/runners/r", params={"force": True})).status_code == 204
