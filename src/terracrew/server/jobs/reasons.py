"""Why a job waits, in words and as a code, with the page that mends it."""

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.jobs import routes
from terracrew.server.jobs.model import Job, JobStatus, Reason
from terracrew.server.runners.model import SILENCE_SECONDS


async def why(tx: Tx, job: Job) -> Reason | None:
    """The first thing that stands in the way; None if nothing does or the job is not waiting."""
    if job.status is not JobStatus.QUEUED:
        return None
    if busy := await _busy(tx, job):
        return busy
    module = await tx.one(
        "SELECT path, engine, runner_id, runner_instance_name FROM modules WHERE id = :id", id=job.module_id
    )
    assert module is not None
    tiers = await routes.tiers(tx, job.organization_id, job.module_id, module["path"], module["runner_id"])
    return _stands_in_the_way([await _instances(tx, tier) for tier in tiers], module)


async def _busy(tx: Tx, job: Job) -> Reason | None:
    row = await tx.one(
        "SELECT id, number FROM jobs WHERE module_id = :module_id AND status IN ('CLAIMED', 'PROCESSING')",
        module_id=job.module_id,
    )
    if row is None:
        return None
    return Reason("module_busy", f"the module is busy with job #{row['number']}", f"/dashboard/jobs/{row['id']}")


async def _instances(tx: Tx, tier: tuple[str, ...]) -> list[Row]:
    found: list[Row] = []
    for runner_id in tier:
        found += await tx.all(
            """SELECT runners.path, runners.is_disabled OR runners.is_draining AS is_closed, runners.max_jobs,
                instances.name, instances.is_draining, instances.capacity, instances.engines,
                instances.is_connected AND instances.heard_at > :since AS is_connected,
                (SELECT count(*) FROM jobs WHERE jobs.instance_id = instances.id
                    AND jobs.status IN ('CLAIMED', 'PROCESSING')) AS held
            FROM runners LEFT JOIN instances ON instances.runner_id = runners.id WHERE runners.id = :id""",
            id=runner_id, since=tx.now - SILENCE_SECONDS,
        )  # fmt: skip
    return found


def _is_online(row: Row) -> bool:
    return bool(row["is_connected"]) and not row["is_draining"] and not row["is_closed"]


def _stands_in_the_way(tiers: list[list[Row]], module: Row) -> Reason | None:
    link = "/dashboard/runners"
    if not tiers:
        return Reason("no_assignment", "no runner is assigned to this module; assign one, or register a new one", link)
    online = next((found for tier in tiers if (found := [row for row in tier if _is_online(row)])), None)
    if online is None:
        names = ", ".join(sorted({row["path"] for tier in tiers for row in tier})[:3])
        return Reason("none_online", f"none of its runners is online and takes jobs ({names}); start one", link)
    if pinned := module["runner_instance_name"]:
        online = [row for row in online if row["name"] == pinned]
        if not online:
            return Reason("instance_absent", f"it is pinned to the instance {pinned}, which is not connected", link)
    able = [row for row in online if f'"{module["engine"]}"' in row["engines"]]
    if not able:
        return Reason(
            "no_engine", f"no online runner has {module['engine']}: `terracrew engine install {module['engine']}`", link
        )
    if all(row["held"] >= min(row["capacity"], row["max_jobs"]) for row in able):
        return Reason("all_full", "all of its runners are full; it starts when one has a free slot", link)
    return Reason("offered", "it is being offered to its runners")


async def of_active(tx: Tx, registry: Registry, job: Job) -> Reason | None:
    """For a job that an attempt owns: whether that attempt is still heard, here or by another server."""
    if not job.is_active or job.instance_id is None:
        return None
    row = await tx.one(
        "SELECT coalesce(heard_at, claimed_at) AS heard_at FROM attempts WHERE job_id = :id AND number = :attempt",
        id=job.id, attempt=job.attempt,
    )  # fmt: skip
    if row is None:
        return None
    silence, is_closed = registry.silence(AttemptRef(job.id, job.attempt), job.instance_id, tx.now - row["heard_at"])
    if silence < (10 if is_closed else 20):  # a heartbeat comes every ten seconds
        return None
    return Reason(
        "lost", f"neither its runner nor its executor has been heard for {silence:.0f} s", "/dashboard/runners"
    )
