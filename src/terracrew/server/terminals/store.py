"""Rows of configuration versions, of the runs of command lines, and of what stands in their logs beside the lines of jobs."""

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table
from terracrew.server.terminals.model import ConfigurationVersion, StateUpload, TerminalRun, TerminalWords

VERSIONS = Table("configuration_versions", ConfigurationVersion)
RUNS = Table("terminal_runs", TerminalRun)
UPLOADS = Table("state_uploads", StateUpload)
WORDS = Table("terminal_words", TerminalWords)


async def insert_version(tx: Tx, version: ConfigurationVersion) -> None:
    await tx.run(VERSIONS.insert(), **to_params(version, *VERSIONS.fields))


async def version(tx: Tx, id: str) -> ConfigurationVersion | None:  # noqa: A002
    return await VERSIONS.find(tx, id=id)


async def fill_version(tx: Tx, id: str, archive_id: str, *, is_empty: bool) -> bool:  # noqa: A002
    """Note what was uploaded. Returns False if something was uploaded before."""
    return bool(
        await tx.run(
            """UPDATE configuration_versions SET archive_id = :archive_id, is_empty = :is_empty
            WHERE id = :id AND archive_id IS NULL""",
            id=id,
            archive_id=archive_id,
            is_empty=is_empty,
        )
    )


async def insert_run(tx: Tx, run: TerminalRun) -> None:
    """Write what a command line has asked for, unless the request was repeated."""
    await tx.run(RUNS.insert() + " ON CONFLICT (job_id) DO NOTHING", **to_params(run, *RUNS.fields))


async def run(tx: Tx, job_id: str) -> TerminalRun | None:
    return await RUNS.find(tx, job_id=job_id)


async def hold_run(tx: Tx, job_id: str) -> TerminalRun | None:
    return await RUNS.hold(tx, job_id=job_id)


async def adopting(tx: Tx, count: int) -> list[str]:
    """Return the newest runs whose files may become the source of their module."""
    rows = await tx.all(
        "SELECT job_id FROM terminal_runs WHERE is_adopting ORDER BY job_id DESC LIMIT :count", count=count
    )
    return [row["job_id"] for row in rows]


async def begin_adoption(tx: Tx, job_id: str) -> None:
    await tx.run("UPDATE terminal_runs SET is_adopting = true WHERE job_id = :job_id", job_id=job_id)


async def end_adoption(tx: Tx, job_id: str) -> None:
    await tx.run("UPDATE terminal_runs SET is_adopting = false WHERE job_id = :job_id", job_id=job_id)


async def set_applied(tx: Tx, job_id: str, by: str) -> None:
    await tx.run("UPDATE terminal_runs SET applied_by = :by WHERE job_id = :job_id", job_id=job_id, by=by)


async def set_discarded(tx: Tx, job_id: str, by: str) -> None:
    await tx.run("UPDATE terminal_runs SET discarded_by = :by WHERE job_id = :job_id", job_id=job_id, by=by)


async def open_words(tx: Tx, job_id: str, attempt: int, mark_before: int) -> TerminalWords:
    """Return what stands before the lines of an attempt, and begin it if nothing does yet."""
    new = TerminalWords(job_id=job_id, attempt=attempt, words="", is_closed=False, mark_before=mark_before)
    await tx.run(WORDS.insert() + " ON CONFLICT (job_id, attempt) DO NOTHING", **to_params(new, *WORDS.fields))
    found = await WORDS.find(tx, job_id=job_id, attempt=attempt)
    assert found is not None
    return found


async def words(tx: Tx, job_id: str, attempt: int) -> TerminalWords | None:
    return await WORDS.find(tx, job_id=job_id, attempt=attempt)


async def add_words(tx: Tx, before: TerminalWords, more: str, *, closes: bool) -> bool:
    """Add words, or close them. Returns False if another server has done so in the meantime."""
    return bool(
        await tx.run(
            """UPDATE terminal_words SET words = words || :more, is_closed = :closes
            WHERE job_id = :job_id AND attempt = :attempt AND NOT is_closed AND words = :before""",
            job_id=before.job_id,
            attempt=before.attempt,
            before=before.words,
            more=more,
            closes=closes,
        )
    )


async def insert_upload(tx: Tx, upload: StateUpload) -> None:
    await tx.run(UPLOADS.insert(), **to_params(upload, *UPLOADS.fields))


async def upload(tx: Tx, id: str) -> StateUpload | None:  # noqa: A002
    return await UPLOADS.find(tx, id=id)


async def fill_upload(tx: Tx, id: str, state_id: str) -> None:  # noqa: A002
    await tx.run("UPDATE state_uploads SET state_id = :state_id WHERE id = :id", id=id, state_id=state_id)


async def refuse_upload(tx: Tx, id: str) -> None:  # noqa: A002
    await tx.run("UPDATE state_uploads SET is_refused = true WHERE id = :id AND state_id IS NULL", id=id)


async def is_upload_open(tx: Tx, lock_id: str, since: float) -> bool:
    """Return whether a state that was announced under this lock since this time has not arrived."""
    row = await tx.one(
        """SELECT id FROM state_uploads WHERE lock_id = :lock_id AND created_at >= :since AND state_id IS NULL
            AND NOT is_refused LIMIT 1""",
        lock_id=lock_id,
        since=since,
    )
    return row is not None


async def forget_uploads(tx: Tx, new: StateUpload, before: float, kept: int) -> None:
    """Delete the announcements for a module from before this time, and all but the newest ones of the same writer."""
    await tx.run(
        "DELETE FROM state_uploads WHERE module_id = :module_id AND created_at < :before",
        module_id=new.module_id,
        before=before,
    )
    await tx.run(
        """DELETE FROM state_uploads WHERE id IN (SELECT id FROM state_uploads WHERE module_id = :module_id
            AND created_by = :created_by AND credential_id = :credential_id
            ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET :kept)""",
        **to_params(new, "module_id", "created_by", "credential_id"),
        kept=kept,
    )
