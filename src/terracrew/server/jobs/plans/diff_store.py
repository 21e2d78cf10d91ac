"""Rows of the diffs of plans: the last one of each job, encrypted, in its row or in an object."""

from collections.abc import Sequence

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.secrets.keyring import Keyring


class StoredDiff(msgspec.Struct, frozen=True):
    """Where the diff of a plan is stored. Either `content` or `object` is set."""

    job_id: str
    attempt: int
    """The attempt that made the plan."""
    module_id: str
    sha256: str
    content: bytes | None = None
    object: str | None = None


async def save(tx: Tx, diff: StoredDiff) -> None:
    """Store the diff of a job's new plan instead of the one before."""
    await tx.run(
        """INSERT INTO plan_diffs (job_id, attempt, module_id, sha256, content, object, created_at)
        VALUES (:job_id, :attempt, :module_id, :sha256, :content, :object, :now)
        ON CONFLICT (job_id) DO UPDATE SET attempt = excluded.attempt, sha256 = excluded.sha256,
            content = excluded.content, object = excluded.object, created_at = excluded.created_at""",
        **msgspec.structs.asdict(diff),
        now=tx.now,
    )


async def get(tx: Tx, job_id: str) -> StoredDiff | None:
    row = await tx.one(
        "SELECT job_id, attempt, module_id, sha256, content, object FROM plan_diffs WHERE job_id = :job_id",
        job_id=job_id,
    )
    return None if row is None else row_to(StoredDiff, row)


async def delete_of_job(tx: Tx, job_id: str) -> list[str]:
    """Delete the diff of a job and return the name of the object that held it, if there is one."""
    rows = await tx.all("DELETE FROM plan_diffs WHERE job_id = :job_id RETURNING object", job_id=job_id)
    return [row["object"] for row in rows if row["object"] is not None]


async def object_names(tx: Tx, job_ids: Sequence[str]) -> set[str]:
    """Return the objects that hold the diffs of these jobs."""
    rows: list[Row] = await tx.each(
        "SELECT plan_diffs.object FROM batch JOIN plan_diffs ON plan_diffs.job_id = batch.job_id WHERE object IS NOT NULL",
        {"job_id": "text"},
        [(each,) for each in job_ids],
    )
    return {row["object"] for row in rows}


def context(job_id: str) -> str:
    """Return what the content of a row is bound to."""
    return f"diff:{job_id}"


async def keep(tx: Tx, diff: StoredDiff, keys: Keyring) -> None:
    """Store the diff of a plan. One that came in its event is encrypted here; an object is encrypted already."""
    sealed = None if diff.content is None else keys.encrypt(diff.content, context(diff.job_id))
    await save(tx, msgspec.structs.replace(diff, content=sealed))
