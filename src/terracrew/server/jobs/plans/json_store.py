"""Rows of the JSON of plans, for command lines that show a saved plan: the last one of each job, encrypted, in its row or in an object."""

from collections.abc import Sequence

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ENDED_STATUSES
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, excluded_assignments
from terracrew.server.secrets.keyring import Keyring


class StoredPlanJson(msgspec.Struct, frozen=True):
    """Where the JSON of a plan is stored. Either `content` or `object` is set."""

    job_id: str
    attempt: int
    """The attempt that made the plan."""
    module_id: str
    sha256: str
    content: bytes | None = None
    object: str | None = None
    plan_sha256: str = ""
    """The hash of the plan itself."""
    awaits_policies: bool = False
    """Whether policies are to look at it when its job has ended, because nothing asks for the permission to apply it."""


PLAN_JSON = Table("plan_json", StoredPlanJson)
_CHANGED = excluded_assignments(
    "attempt", "sha256", "content", "object", "plan_sha256", "awaits_policies", "created_at"
)


async def get(tx: Tx, job_id: str) -> StoredPlanJson | None:
    return await PLAN_JSON.find(tx, job_id=job_id)


async def delete_of_job(tx: Tx, job_id: str) -> list[str]:
    """Delete the JSON of a job's plan and return the name of the object that held it, if there is one."""
    rows = await tx.all("DELETE FROM plan_json WHERE job_id = :job_id RETURNING object", job_id=job_id)
    return [row["object"] for row in rows if row["object"] is not None]


async def object_names(tx: Tx, job_ids: Sequence[str]) -> set[str]:
    """Return the objects that hold the JSON of the plans of these jobs."""
    rows: list[Row] = await tx.each(
        "SELECT plan_json.object FROM batch JOIN plan_json ON plan_json.job_id = batch.job_id WHERE object IS NOT NULL",
        {"job_id": "text"},
        [(each,) for each in job_ids],
    )
    return {row["object"] for row in rows}


def context(job_id: str) -> str:
    """Return what the content of a row is bound to."""
    return f"plan_json:{job_id}"


async def keep(tx: Tx, found: StoredPlanJson, keys: Keyring) -> None:
    """Store the JSON of a job's new plan instead of the one before. One that came in its event is encrypted here; an object is
    encrypted already."""
    sealed = None if found.content is None else keys.encrypt(found.content, context(found.job_id))
    await tx.run(
        f"{PLAN_JSON.insert('created_at')} ON CONFLICT (job_id) DO UPDATE SET {_CHANGED}",
        **to_params(msgspec.structs.replace(found, content=sealed), *PLAN_JSON.fields),
        created_at=tx.now,
    )


async def awaiting_policies(tx: Tx, count: int) -> list[str]:
    """Return the jobs that have ended and at whose plans policies have not looked yet, the oldest first."""
    rows = await tx.all(
        f"""SELECT plan_json.job_id FROM plan_json JOIN jobs ON jobs.id = plan_json.job_id
        WHERE plan_json.awaits_policies AND jobs.status IN {ENDED_STATUSES}
        ORDER BY plan_json.job_id LIMIT :count""",
        count=count,
    )
    return [row["job_id"] for row in rows]


async def end_wait_for_policies(tx: Tx, found: StoredPlanJson) -> bool:
    """Note that policies have looked at this JSON; returns whether nobody else did so before."""
    row = await tx.one(
        """UPDATE plan_json SET awaits_policies = false
        WHERE job_id = :job_id AND attempt = :attempt AND sha256 = :sha256 AND awaits_policies RETURNING job_id""",
        job_id=found.job_id,
        attempt=found.attempt,
        sha256=found.sha256,
    )
    return row is not None


async def newest_of_place(tx: Tx, organization_id: str, place: str, count: int) -> list[str]:
    """Return the jobs of a place, and of all that is below it, whose plans are kept as JSON, the newest first."""
    rows = await tx.all(
        """SELECT plan_json.job_id FROM plan_json JOIN jobs ON jobs.id = plan_json.job_id
        JOIN modules ON modules.id = jobs.module_id
        WHERE modules.organization_id = :organization_id
            AND (CAST(:place AS text) = '' OR modules.path = :place OR substr(modules.path, 1, :length) = :below)
        ORDER BY plan_json.job_id DESC LIMIT :count""",
        organization_id=organization_id,
        place=place,
        below=f"{place}/",
        length=len(place) + 1,
        count=count,
    )
    return [row["job_id"] for row in rows]
