"""Why no runner has taken a queued job yet: who could, and what each of them lacks."""

from datetime import UTC, datetime
from typing import LiteralString
from urllib.parse import quote

from terracrew.server.db.seam import Columns, Row, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.jobs import routes
from terracrew.server.jobs.model import Job, Reason
from terracrew.server.runners.model import SILENCE_SECONDS

NAMED = 3
"""So many runners are named; of the others it is said how many there are."""
COUNTED = 100
"""Of the jobs ahead; beyond that it does not matter how many there are."""
RUNNERS = "/dashboard/runners"
_COLUMNS: Columns = {"id": "text", "now": "double precision", "since": "double precision"}
# Compared in the database: a time that has been outside is not quite the same.
_BEFORE: LiteralString = """jobs.status = 'QUEUED' AND (jobs.priority > own.priority OR jobs.priority = own.priority
    AND (jobs.queued_at < own.queued_at OR jobs.queued_at = own.queued_at AND jobs.id < own.id))"""
_CREW = """
SELECT runners.id, runners.path, runners.is_disabled, runners.is_draining AS is_drained, runners.max_jobs,
    runners.organization_id IS NULL OR runners.worker_token_sha256 IS NOT NULL OR EXISTS (
        SELECT 1 FROM service_account_secrets AS secrets WHERE secrets.service_account_id = runners.service_account_id
            AND (secrets.expires_at IS NULL OR secrets.expires_at > batch.now)) AS has_credential,
    instances.name, instances.is_draining, instances.is_disk_full, instances.capacity, instances.engines, instances.heard_at,
    instances.is_connected AND instances.heard_at > batch.since AS is_connected,
    (SELECT count(*) FROM jobs WHERE jobs.instance_id = instances.id
        AND jobs.status IN ('CLAIMED', 'PROCESSING')) AS held
FROM batch JOIN runners ON runners.id = batch.id LEFT JOIN instances ON instances.runner_id = runners.id"""


async def why(tx: Tx, job: Job, registry: Registry) -> Reason:
    """What keeps a queued job of a free module waiting."""
    module = await tx.one(
        "SELECT path, engine, runner_id, runner_instance_name FROM modules WHERE id = :id", id=job.module_id
    )
    assert module is not None
    maker = await _maker(tx, job)
    only: str | None = maker["runner_id"] if maker else module["runner_id"]
    tiers = await routes.tiers(tx, job.organization_id, job.module_id, module["path"], only)
    if not tiers:
        return _nobody(maker)
    crews = [await _crew(tx, tier) for tier in tiers]
    online = next((found for crew in crews if (found := [row for row in crew if _takes_jobs(row)])), None)
    if online is None:
        return _none_online([row for crew in crews for row in crew], maker, registry.watched_for, tx.now)
    return _unable(online, module) or await _behind(tx, job, online)


async def _maker(tx: Tx, job: Job) -> Row | None:
    """The runner that made the plan which the job goes on with, where no other may have it."""
    if job.plan_attempt is None:
        return None
    sql = f"SELECT maker.id AS runner_id, maker.path AS path FROM jobs JOIN ({routes.MAKER}) ON {routes.OF_JOB} WHERE jobs.id = :id"
    return await tx.one(sql, id=job.id)


def _nobody(maker: Row | None) -> Reason:
    if maker is None:
        return Reason(
            "no_assignment", "no runner is assigned to this module; assign one, or register a new one", RUNNERS
        )
    what = f"the runner {maker['path']}, which made its plan, is no longer assigned to this module"
    return Reason("plan_runner", f"{what}: assign it again, or cancel this job", RUNNERS)


async def _crew(tx: Tx, tier: tuple[str, ...]) -> list[Row]:
    return await tx.each(_CREW, _COLUMNS, [(runner, tx.now, tx.now - SILENCE_SECONDS) for runner in sorted(tier)])


def _takes_jobs(row: Row) -> bool:
    return bool(row["is_connected"]) and not (row["is_draining"] or row["is_drained"] or row["is_disabled"])


def _none_online(crew: list[Row], maker: Row | None, watched_for: float, now: float) -> Reason:
    last: dict[str, Row] = {}
    for row in crew:  # of each runner the instance that was heard last
        known = last.setdefault(row["path"], row)
        if (row["heard_at"] or 0) > (known["heard_at"] or 0):
            last[row["path"]] = row
    names = [f"{path} ({_state(row)})" for path, row in sorted(last.items())]
    said = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    link = f"{RUNNERS}?q={quote(next(iter(last)), safe='')}" if len(last) == 1 else RUNNERS
    start = now - watched_for
    if watched_for < SILENCE_SECONDS and any(start - SILENCE_SECONDS < (r["heard_at"] or 0) < start for r in crew):
        return Reason("settling", f"the server has just started, and its runners are not back yet: {said}", link)
    if maker is not None:
        text = f"only the runner that made its plan can go on with it, and it takes no jobs now: {said}"
        return Reason("plan_runner", text, link)
    if not any(row["has_credential"] for row in crew):
        text = f"none of its runners has a usable credential, so none can connect: {said}"
        return Reason("no_credential", f"{text}; give it a worker token or a service account", link)
    return Reason("none_online", f"none of its runners is online and takes jobs: {said}", link)


def _state(row: Row) -> str:
    """What keeps a runner from taking jobs."""
    if row["is_disabled"]:
        return "disabled"
    if row["is_connected"]:
        return "its disk is full" if row["is_disk_full"] and not row["is_drained"] else "draining"
    if not row["has_credential"]:
        return "no usable credential"
    if row["heard_at"] is None:
        return "has never connected"
    return f"offline since {datetime.fromtimestamp(row['heard_at'], UTC):%Y-%m-%d %H:%M} UTC"


def _unable(online: list[Row], module: Row) -> Reason | None:
    """Somebody is there, but nobody who could."""
    pinned, engine = module["runner_instance_name"], module["engine"]
    if pinned and not any(row["name"] == pinned for row in online):
        paths = ", ".join(sorted({row["path"] for row in online})[:NAMED])
        return Reason(
            "instance_absent", f"it is pinned to the instance {pinned}, which is not connected to {paths}", RUNNERS
        )
    if not any(f'"{engine}"' in row["engines"] for row in online if pinned in (None, row["name"])):
        return Reason("no_engine", f"no online runner has {engine}: `terracrew engine install {engine}` there", RUNNERS)
    return None


async def _behind(tx: Tx, job: Job, online: list[Row]) -> Reason:
    """Everything is there: it is a matter of turns."""
    if first := await _first_of_module(tx, job):
        return Reason(
            "module_busy", f"job #{first['number']} of this module goes first", f"/dashboard/jobs/{first['id']}"
        )
    if any(row["held"] < min(row["capacity"], row["max_jobs"]) for row in online):
        return Reason("offered", "it is being offered to its runners")
    ahead = await _ahead(tx, job, online[0]["id"])  # those of a tier are assigned to the same place
    slots = sum(min(row["capacity"], row["max_jobs"]) for row in online)
    turn = "it is the next" if not ahead else f"{ahead} job{'s' if ahead > 1 else ''} ahead of it"
    turn = f"more than {COUNTED} jobs ahead of it" if ahead > COUNTED else turn
    return Reason("all_full", f"all of its runners are full ({slots} slot{'' if slots == 1 else 's'}), {turn}", RUNNERS)


async def _first_of_module(tx: Tx, job: Job) -> Row | None:
    return await tx.one(
        "SELECT jobs.id, jobs.number FROM jobs AS own JOIN jobs ON " + _BEFORE + """
        WHERE own.id = :id AND jobs.module_id = own.module_id
        ORDER BY jobs.priority DESC, jobs.queued_at, jobs.id LIMIT 1""",
        id=job.id,
    )  # fmt: skip


async def _ahead(tx: Tx, job: Job, runner_id: str) -> int:
    """How many queued jobs that this runner could take now come before it, by priority and age."""
    row = await tx.one(
        f"""SELECT count(*) AS ahead FROM (
            SELECT jobs.id FROM jobs AS own JOIN jobs ON {_BEFORE}
            JOIN modules ON modules.id = jobs.module_id
            WHERE own.id = :id AND NOT EXISTS (
                SELECT 1 FROM jobs AS busy
                WHERE busy.module_id = jobs.module_id AND busy.status IN ('CLAIMED', 'PROCESSING'))
              AND (EXISTS (SELECT 1 FROM runners WHERE runners.id = :runner_id AND runners.organization_id IS NULL)
                OR EXISTS (SELECT 1 FROM assignments
                    WHERE assignments.runner_id = :runner_id AND assignments.organization_id = jobs.organization_id
                      AND {routes.COVERS}))
            LIMIT :most) AS counted""",
        id=job.id, runner_id=runner_id, most=COUNTED + 1,
    )  # fmt: skip
    return row["ahead"] if row else 0
