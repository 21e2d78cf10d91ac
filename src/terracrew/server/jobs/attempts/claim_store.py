"""The statements of the claim: one decides it and makes at most one owner (rule 1), the others write and read what it leads to."""

from collections.abc import Iterable, Sequence
from typing import LiteralString, TypeAlias

import msgspec

from terracrew.protocol.spec import Credentials
from terracrew.server.db.seam import Columns, Param, Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, only_destroys
from terracrew.server.history.store import IS_HELD
from terracrew.server.jobs import attempt_store, queue_reads, store
from terracrew.server.jobs.set_back import receipts
from terracrew.server.jobs.set_back.receipts import Claimed
from terracrew.server.runners import eligibility
from terracrew.server.runners.eligibility import GRACE_SECONDS, Precedence
from terracrew.server.tree.inputs import reads as input_reads


class Claimant(msgspec.Struct, frozen=True):
    job_id: str
    attempt: int
    runner_id: str
    instance_id: str
    epoch: int


class ClaimRequest(msgspec.Struct, frozen=True):
    """A claim with the credentials that its attempt gets if it wins."""

    claimant: Claimant
    credentials: Credentials
    may_leave: bool = False
    """Whether the instance may be let go at the same time (`cloud_hosted/leaving.py`): the row of the instance decides then."""


# A deleted module is moved out of its jobs' organization, so that a job which was queued at that moment does not run.
# `status || ''` keeps PostgreSQL from using the index on the status, which would read the whole queue for each claim.
# NOT (… OR …) keeps it from joining the tables of these conditions: with other statistics, it read all of them for each claim.
def _claim(precedence: Precedence) -> LiteralString:
    return f"""
UPDATE jobs SET status = 'CLAIMED', runner_id = batch.runner_id, instance_id = batch.instance_id, claimed_at = batch.now,
    module_path = (SELECT modules.path FROM modules WHERE modules.id = jobs.module_id)
FROM batch
WHERE jobs.id = batch.job_id AND jobs.status || '' = 'QUEUED' AND jobs.attempt = batch.attempt
  AND jobs.id = {queue_reads.first_of_module("jobs.module_id")}
  AND NOT (
    EXISTS (SELECT 1 FROM jobs AS busy WHERE busy.module_id = jobs.module_id AND busy.status IN {ACTIVE_STATUSES})
    OR EXISTS (SELECT 1 FROM states WHERE states.module_id = jobs.module_id AND states.status = 'quarantined')
    OR EXISTS (SELECT 1 FROM inputs WHERE inputs.place_id = jobs.module_id
        AND {input_reads.holds_jobs("batch.now", only_destroys("jobs"))})
    OR (jobs.type <> 'PLAN' AND {IS_HELD})
    OR EXISTS (SELECT 1 FROM {eligibility.MAKER} WHERE {eligibility.OF_JOB} AND maker.id <> batch.runner_id))
  AND EXISTS (
    SELECT 1 FROM instances
    JOIN runners ON runners.id = instances.runner_id
    JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id AND modules.lock_id IS NULL
    WHERE instances.id = batch.instance_id AND runners.id = batch.runner_id AND instances.epoch = batch.epoch
      AND instances.is_connected AND NOT instances.is_draining AND NOT runners.is_draining AND NOT runners.is_disabled
      AND {eligibility.HAS_FREE_SLOT}
      AND {eligibility.IS_PIN}
      AND {eligibility.may_have_engine("modules.engine", eligibility.WANTED_VERSION)}
      AND {eligibility.KNOWS_SOURCE}
      AND {eligibility.has_tags("modules.tags")}
      AND {eligibility.IS_ASSIGNED}
      AND {eligibility.is_of_nearest_tier(precedence)}
      AND {eligibility.IS_BELOW_CAPS})
RETURNING id"""


CLAIMS: dict[Precedence, LiteralString] = {"online": _claim("online"), "configured": _claim("configured")}
_LOCK_CAPPED_GROUPS: LiteralString = eligibility.CAPPED_GROUPS + " ORDER BY capped.id FOR NO KEY UPDATE OF capped"
_CLAIMED_OF_ATTEMPT = ("job_id", "number", "runner_id", "instance_id", "claimed_at", "inputs_sha256")
"""The columns of an attempt that its claim decides."""
_ATTEMPT_TYPES = attempt_store.ATTEMPTS.types_of(
    *_CLAIMED_OF_ATTEMPT, hub_sha256="text", api_sha256="text", state_key="bytea"
)
_INSERT_ATTEMPTS: LiteralString = attempt_store.ATTEMPTS.insert_batch(
    *_CLAIMED_OF_ATTEMPT, "hub_sha256", "api_sha256", "state_key"
)

_GRANTS: LiteralString = f"""
SELECT jobs.id, jobs.attempt, jobs.number, jobs.created_at, jobs.queued_at, jobs.type, jobs.is_destroy_plan, jobs.is_refresh_only,
    jobs.limits, jobs.cloud, jobs.dispatcher, jobs.is_fresh, jobs.has_own_source, jobs.needs_plan_json,
    jobs.targets, jobs.replace, jobs.refresh,
    jobs.organization_id, jobs.module_id, jobs.source, jobs.source_digest,
    jobs.source_commit, jobs.source_revision,
    modules.path AS module_path, modules.engine, modules.backend, modules.lock_id,
    modules.oidc_audiences, modules.state_version, modules.sealed_key, groups.path AS group_path,
    states.sha256, states.size, states.content,
    states.job_id AS state_job_id, states.attempt AS state_attempt, states.event AS state_event,
    made.state_key AS plan_key, made.runner_id AS maker_id, jobs.runner_id,
    plans.attempt AS plan_attempt, plans.state_version AS plan_state_version,
    plans.inputs_sha256 AS plan_inputs_sha256, plans.path AS plan_path, plans.sha256 AS plan_sha256,
    plans.size AS plan_size, plans.made_at AS plan_made_at, plans.decide_by AS plan_decide_by,
    plans.decision AS plan_decision, plans.applied_by AS plan_applied_by, plans.plan_sha256 AS plan_plan_sha256,
    plans.made_job_id AS plan_made_job_id, plans.made_attempt AS plan_made_attempt,
    {eligibility.HAS_CAPS} AS has_caps,
    {eligibility.WANTED_VERSION} AS wanted_version, instances.engines, instances.engine_versions,
    instances.installable_engines, instances.dispatchers, instances.once_token_id, jobs.instance_id,
    EXISTS (SELECT 1 FROM step_settings WHERE step_settings.organization_id = jobs.organization_id) AS has_step_settings,
    EXISTS (SELECT 1 FROM policies WHERE policies.organization_id = jobs.organization_id) AS has_policies,
    EXISTS (SELECT 1 FROM job_inputs WHERE job_inputs.job_id = jobs.id) AS has_own_inputs,
    {store.JOBS.prefixed(receipts.PREFIX)}
FROM batch
JOIN jobs ON jobs.id = batch.job_id
JOIN modules ON modules.id = jobs.module_id
JOIN groups ON groups.id = modules.group_id
LEFT JOIN instances ON instances.id = jobs.instance_id
LEFT JOIN states ON states.module_id = modules.id AND states.status = 'current' AND modules.backend = 'terracrew'
LEFT JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
LEFT JOIN attempts AS made ON made.job_id = plans.made_job_id AND made.number = plans.made_attempt"""
_HELD_GRANTS: LiteralString = _GRANTS + " FOR KEY SHARE OF modules"

CLAIM_TYPES: Columns = {
    "job_id": "text",
    "attempt": "bigint",
    "runner_id": "text",
    "instance_id": "text",
    "epoch": "bigint",
    "now": "double precision",
    "grace_since": "double precision",
}


async def claim(tx: Tx, precedence: Precedence, claimants: Sequence[Claimant]) -> set[str]:
    """Claim jobs, and return those that were claimed. No two claimants compete for a job, a slot, or the last place in a group."""
    rows = [(*msgspec.structs.astuple(claimant), tx.now, tx.now - GRACE_SECONDS) for claimant in claimants]
    return {row["id"] for row in await tx.each(CLAIMS[precedence], CLAIM_TYPES, rows)}


async def undo(tx: Tx, job_ids: Sequence[str]) -> None:
    """Put jobs back into the queue that this transaction has claimed. Nobody else has seen the claims."""
    await tx.each(
        """UPDATE jobs SET status = 'QUEUED', runner_id = NULL, instance_id = NULL, claimed_at = NULL
        FROM batch WHERE jobs.id = batch.job_id AND jobs.status = 'CLAIMED' RETURNING jobs.id""",
        {"job_id": "text"},
        [(job_id,) for job_id in sorted(job_ids)],
    )


async def lock_capped_groups(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Lock the groups above these jobs that limit how many jobs run at once. Returns each job with each of them and its limit.

    The lock lasts until the transaction ends. A later statement then counts every job that another server has started.
    """
    return await tx.each(_LOCK_CAPPED_GROUPS, {"job_id": "text"}, [(job_id,) for job_id in job_ids])


async def grants(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return what the runners of claimed jobs are given, with the plan that a job continues with."""
    return await tx.each(_GRANTS, {"job_id": "text"}, [(job_id,) for job_id in job_ids])


async def hold_grants(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return the same, and keep the modules from being locked by a person until the transaction ends.

    A transaction in which a person takes the lock has locked the row of the module. This waits for it, and its `lock_id` is then
    in the row, although the statement of the claim did not see it yet.
    """
    return await tx.each(_HELD_GRANTS, {"job_id": "text"}, [(job_id,) for job_id in job_ids])


async def commits_of_earlier_jobs(tx: Tx, module_id: str, job_id: str) -> list[Row]:
    """Return the commits of those of a module's 20 newest earlier jobs that had one, the newest first."""
    return await tx.all(
        """SELECT number, source, source_revision, source_commit FROM (
            SELECT id, number, source, source_revision, source_commit FROM jobs
            WHERE module_id = :module_id AND id < :job_id ORDER BY id DESC LIMIT 20) AS earlier
        WHERE source_commit <> '' ORDER BY id DESC""",
        module_id=module_id,
        job_id=job_id,
    )


async def set_engine_versions(tx: Tx, rows: Sequence[tuple[str, str, str]]) -> None:
    """Write the versions of the engine that claimed jobs run with. Each row has the job, the version, and the version that all of
    its later attempts must have, too, which is empty for a module that accepts any."""
    await tx.each(
        """UPDATE jobs SET engine_version = batch.version, pinned_engine_version = batch.pinned
        FROM batch WHERE jobs.id = batch.job_id RETURNING jobs.id""",
        {"job_id": "text", "version": "text", "pinned": "text"},
        sorted(rows),
    )


async def insert_attempts(tx: Tx, claimed: Sequence[Claimed]) -> None:
    """Write the attempts of claimed jobs."""
    rows: list[tuple[Param, ...]] = [
        (
            each.job["id"],
            each.attempt,
            each.runner_id,
            each.instance_id,
            each.claimed_at,
            each.inputs_sha256,
            each.hub_sha256,
            each.api_sha256,
            each.state_key,
        )
        for each in claimed
    ]
    await tx.each(_INSERT_ATTEMPTS, _ATTEMPT_TYPES, rows)


Group: TypeAlias = tuple[str, str]
"""A group by its organization and its path."""


class PlacesInGroups:
    """The capped groups above the jobs of a transaction, and how many more jobs may start in each of them."""

    def __init__(self, groups_of: dict[str, list[Group]], free: dict[Group, int]) -> None:
        self._groups_of = groups_of
        self._free = free

    @classmethod
    async def lock(cls, tx: Tx, items: Sequence[ClaimRequest]) -> "PlacesInGroups":
        """Lock the groups until the transaction ends, so that no other server starts a job there, and count their free places."""
        groups_of: dict[str, list[Group]] = {}
        limits: dict[Group, int] = {}
        for row in await lock_capped_groups(tx, sorted({item.claimant.job_id for item in items})):
            group = row["organization_id"], row["path"]
            groups_of.setdefault(row["job_id"], []).append(group)
            limits[group] = row["max_running_jobs"]
        running = await queue_reads.running_jobs(tx, limits)
        return cls(groups_of, {group: limit - running[group] for group, limit in limits.items()})

    def turn(self, items: Sequence[ClaimRequest]) -> tuple[list[ClaimRequest], list[ClaimRequest]]:
        """Split items so that no two of the first part compete for a job, an instance's slots, or the last places in a group.

        Items below a group without a free place are in neither part, so they are refused. The statement must not decide about
        them: it counts again, and if a job has ended since, each of them would find the same free place.
        """
        taken: set[str] = set()
        used: dict[Group, int] = {}
        turn: list[ClaimRequest] = []
        later: list[ClaimRequest] = []
        for item in items:
            wanted = {item.claimant.job_id, item.claimant.instance_id}
            groups = self._groups_of.get(item.claimant.job_id, [])
            if any(self._free[group] <= 0 for group in groups):
                continue
            is_short = any(self._free[group] <= used.get(group, 0) for group in groups)
            if is_short or wanted & taken:
                later.append(item)
            else:
                turn.append(item)
                used |= {group: used.get(group, 0) + 1 for group in groups}
            taken |= wanted
        return turn, later

    def take(self, job_ids: Iterable[str]) -> None:
        """Note that these jobs have started."""
        for job_id in job_ids:
            for group in self._groups_of.get(job_id, []):
                self._free[group] -= 1
