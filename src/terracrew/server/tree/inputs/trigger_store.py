"""Rows of modules that have to be applied because an output that they use has changed."""

from collections.abc import Sequence

from terracrew.server.db.seam import Row, Tx


async def users(tx: Tx, module_id: str) -> list[tuple[str, str]]:
    """Return the modules with automatic triggers that use outputs of this one, each with the name of an output."""
    rows = await tx.all(
        """SELECT inputs.place_id, inputs.source_output FROM inputs JOIN modules ON modules.id = inputs.place_id
        WHERE inputs.source_module_id = :module_id AND inputs.is_current AND inputs.source_module_id IS NOT NULL
            AND modules.triggers = 'auto'""",
        module_id=module_id,
    )
    return [(row["place_id"], row["source_output"]) for row in rows]


async def remember(tx: Tx, module_ids: Sequence[str], cause_job_id: str) -> None:
    """Remember that these modules have to be applied. Of several causes, the last one is kept."""
    await tx.each(
        """INSERT INTO triggered_modules (module_id, cause_job_id, changed_at)
        SELECT module_id, cause_job_id, changed_at FROM batch WHERE true
        ON CONFLICT (module_id) DO UPDATE SET cause_job_id = excluded.cause_job_id, changed_at = excluded.changed_at""",
        {"module_id": "text", "cause_job_id": "text", "changed_at": "double precision"},
        [(module_id, cause_job_id, tx.now) for module_id in module_ids],
    )
    for module_id in module_ids:
        tx.wake("triggers", module_id)


async def hold(tx: Tx, module_id: str) -> Row | None:
    """Return and lock the row of a module; None if there is none, or if another server works on it."""
    return await tx.one(
        """SELECT module_id, cause_job_id FROM triggered_modules WHERE module_id = :module_id FOR UPDATE SKIP LOCKED""",
        module_id=module_id,
    )


async def forget(tx: Tx, module_id: str) -> None:
    """Forget that a module has to be applied, and why that did not work before."""
    await tx.run("DELETE FROM triggered_modules WHERE module_id = :module_id", module_id=module_id)
    await tx.run("DELETE FROM trigger_problems WHERE module_id = :module_id", module_id=module_id)


async def note_problem(tx: Tx, module_id: str, cause_job_id: str, message: str) -> None:
    """Keep why a changed output could not queue the job of a module, for the page of the module."""
    await tx.run(
        """INSERT INTO trigger_problems (module_id, cause_job_id, message, created_at)
        VALUES (:module_id, :cause_job_id, :message, :now)""",
        module_id=module_id,
        cause_job_id=cause_job_id,
        message=message,
        now=tx.now,
    )
    tx.wake("tree", module_id)
