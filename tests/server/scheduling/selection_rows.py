"""A world of selection in a database, and in the registry of a server that its instances are connected to."""

import msgspec

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.seam import Param, Tx
from terracrew.server.engines import store as engine_store
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runners.eligibility import GRACE_SECONDS
from tests.builders.job_rows import insert
from tests.server.scheduling.recorded_claims import Socket
from tests.server.scheduling.selection_worlds import (
    GROUPS,
    SOURCE,
    InstanceCase,
    RunnerCase,
    World,
    encoded,
    instance_id,
)


def _json(values: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(values)).decode()


async def build(tx: Tx, world: World) -> None:
    """Insert the rows of a world. The queued job is `job`."""
    now: dict[str, Param] = {"created_at": tx.now}
    of: dict[str, Param] = {"organization_id": "org"}
    await insert(tx, "organizations", id="org", name="org", **now)
    for path in GROUPS:
        parent = None if not path else f"group-{path.rpartition('/')[0]}"
        names: dict[str, Param] = {"name": path.rpartition("/")[2], "path": path, "depth": path.count("/") + bool(path)}
        await insert(
            tx,
            "groups",
            id=f"group-{path}",
            parent_id=parent,
            max_running_jobs=world.caps.get(path),
            **names,
            **of,
            **now,
        )
    pin = None if world.pinned_runner is None else f"runner-{world.pinned_runner}"
    wanted: dict[str, Param] = {"engine": world.engine, "engine_version": world.engine_version}
    if world.engine_version:
        await engine_store.remember_range(tx, world.engine, world.engine_version)
    await _module(tx, "module", "a/b", "m", tags=_json(world.tags), runner_id=pin, pin=world.pinned_name, **wanted)
    await insert_job(tx, world)
    for number, runner in enumerate(world.runners):
        await _runner(tx, world, number, runner)


async def insert_job(tx: Tx, world: World) -> None:
    """Insert the queued job of a world."""
    await _job(tx, "job", "module", "a/b/m", 1, "QUEUED", None, encoded(world.choice))


async def delete_all(tx: Tx) -> None:
    """Delete the rows of a world, and what claims added to them."""
    for table in ("attempts", "jobs", "instances", "assignments", "runners", "modules"):
        await tx.run(f"DELETE FROM {table}")  # pyright: ignore[reportArgumentType]
    for path in sorted(GROUPS, reverse=True):
        await tx.run("DELETE FROM groups WHERE path = :path", path=path)
    await tx.run("DELETE FROM organizations")


async def _module(tx: Tx, module_id: str, group: str, name: str, **values: Param) -> None:
    row: dict[str, Param] = {
        "id": module_id,
        "organization_id": "org",
        "group_id": f"group-{group}",
        "name": name,
        "path": f"{group}/{name}".lstrip("/"),
        "engine": values.get("engine", "tofu"),
        "engine_version": values.get("engine_version", ""),
        "tags": values.get("tags", "[]"),
        "runner_id": values.get("runner_id"),
        "runner_instance_name": values.get("pin"),
        "source": SOURCE,
        "created_at": tx.now,
    }
    await insert(tx, "modules", **row)


async def _job(
    tx: Tx,
    job_id: str,
    module_id: str,
    module_path: str,
    number: int,
    status: str,
    instance: str | None,
    dispatcher: str = "{}",
) -> None:
    row: dict[str, Param] = {
        "id": job_id,
        "organization_id": "org",
        "module_id": module_id,
        "module_path": module_path,
        "number": number,
        "type": "PLAN",
        "status": status,
        "instance_id": instance,
        "dispatcher": dispatcher,
        "source": SOURCE,
        "created_by": "test",
        "created_at": tx.now,
        "queued_at": tx.now,
    }
    await insert(tx, "jobs", **row)


async def _runner(tx: Tx, world: World, number: int, runner: RunnerCase) -> None:
    runner_id = f"runner-{number}"
    await insert(
        tx,
        "runners",
        id=runner_id,
        organization_id=None if runner.is_shared else "org",
        group_id=None if runner.is_shared else "group-",
        name=runner_id,
        path=runner_id,
        type="cloud-hosted" if runner.can_wake else "self-hosted",
        can_wake=runner.can_wake,
        is_draining=runner.is_draining,
        is_disabled=runner.is_disabled,
        max_jobs=runner.max_jobs,
        tags=_json(runner.tags),
        worker_token_sha256="x",
        created_at=tx.now,
    )
    for place in () if runner.is_shared else sorted(runner.places):
        is_module = place == "module"
        await insert(
            tx,
            "assignments",
            runner_id=runner_id,
            place_id="module" if is_module else f"group-{place}",
            kind="module" if is_module else "group",
            organization_id="org",
            path="a/b/m" if is_module else place,
            created_at=tx.now,
        )
    for place, instance in enumerate(runner.instances):
        await _instance(tx, runner_id, instance_id(number, place), instance)


async def _instance(tx: Tx, runner_id: str, its_id: str, instance: InstanceCase) -> None:
    gone_at = {"recent": tx.now - GRACE_SECONDS / 2, "leaving": tx.now - 1, "gone": tx.now - 2 * GRACE_SECONDS}
    await insert(
        tx,
        "instances",
        id=its_id,
        runner_id=runner_id,
        name=instance.name,
        key_sha256="",
        epoch=1,
        version="0",
        capacity=instance.capacity,
        engines=encoded(dict.fromkeys(sorted(instance.engines), instance.versions[0])),
        engine_versions=encoded(dict.fromkeys(sorted(instance.engines), instance.versions)),
        installable_engines=encoded(sorted(instance.installable)),
        dispatchers=instance.dispatchers,
        is_connected=instance.state in ("connected", "draining"),
        is_draining=instance.state in ("draining", "leaving"),
        connected_at=tx.now,
        disconnected_at=gone_at.get(instance.state),
        heard_at=tx.now,
    )
    await engine_store.set_available(tx, {its_id: instance.available})
    for count, group in enumerate(instance.held):
        name = f"{its_id}-{count}"
        await _module(tx, name, group, name)
        await _job(
            tx,
            f"job-{name}",
            name,
            f"{group}/{name}".lstrip("/"),
            int.from_bytes(name.encode()) % 2**60,
            "CLAIMED",
            its_id,
        )


def connected(world: World) -> Registry:
    """Return a registry in which every connected instance of a world has a session."""
    registry = Registry()
    for number, runner in enumerate(world.runners):
        for place, each in enumerate(runner.instances):
            if each.state not in ("connected", "draining"):
                continue
            session = RunnerSession(
                Socket(),  # pyright: ignore[reportArgumentType]
                SYSTEM,
                runner_id=f"runner-{number}",
                instance_id=instance_id(number, place),
                name=each.name,
                epoch=1,
                engines=each.available,
                slots=min(each.capacity, runner.max_jobs),
                tags=runner.tags,
                is_draining=each.state == "draining",
            )
            session.is_closed = runner.is_disabled or runner.is_draining
            session.credits = session.slots
            registry.add(session)
    return registry
