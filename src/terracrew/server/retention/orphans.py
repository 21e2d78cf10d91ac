"""Deletes objects that no row names. A crash, a cancellation or a lost attempt may leave one between the upload and its row.

The store is listed a page at a time. An object that is older than the grace period is looked up in the database, and is an
orphan if nothing names it and nothing that can still happen would. The grace period covers uploads in flight, because an object is
written before its row. Two servers that sweep at the same time delete the same orphans.

Objects of jobs that this database does not know are kept, and so are all archives: the job may belong to another server that uses
the same store, or may be newer than the backup from which this database was restored.
"""

import re
import time
from collections.abc import Awaitable, Callable, Sequence

from terracrew.api.operations import Tally
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import reads as jobs
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.plans import diff_store, json_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.logs import object_reads as log_objects
from terracrew.server.objects import Listed, Objects
from terracrew.server.releases import store as releases
from terracrew.server.retention import store
from terracrew.server.retention.policy import DAY_SECONDS
from terracrew.server.state import content
from terracrew.server.state import reads as states
from terracrew.server.uploads import store as uploads

GRACE_SECONDS = DAY_SECONDS
BROUGHT_GRACE_SECONDS = 30 * DAY_SECONDS
"""How long a state is kept that a person brought and that no row names, because the request ended before its row was written. It may
also be newer than the backup from which this database was restored."""
_NUMBER = re.compile(r"[0-9]{1,18}\Z")
Needed = Callable[[Tx, Sequence[str], float], Awaitable[set[str]]]
"""Which of these objects are named, or may be. The last value is for how long an attempt that has ended may deliver."""


def _attempts(names: Sequence[str]) -> list[tuple[str, int]]:
    """Return the attempts in these names, which have the form <kind>/<job>/<attempt>/…"""
    found = {tuple(name.split("/")[1:3]) for name in names if name.count("/") >= 3}
    return sorted((each[0], int(each[1])) for each in found if _NUMBER.match(each[1]))


async def _logs(tx: Tx, names: Sequence[str], _: float) -> set[str]:
    return await log_objects.names(tx, _attempts(names))


async def _plans(tx: Tx, names: Sequence[str], _: float) -> set[str]:
    """A kept plan has a row. An attempt that has not ended may still make one of what it has uploaded."""
    wanted = _attempts(names)
    named = await plan_store.kept_objects(tx, wanted)
    running = await attempt_reads.running(tx, wanted)
    open_folders = tuple(plan_store.object_folder(row["job_id"], row["number"]) + "/" for row in running)
    return named | {name for name in names if open_folders and name.startswith(open_folders)}


async def _states(tx: Tx, names: Sequence[str], late_seconds: float) -> set[str]:
    """States, large outputs, diffs and JSON of plans. One whose event has yet to come is needed for as long as the attempt may deliver."""
    wanted = _attempts(names)
    named = await states.object_names(tx, wanted)
    jobs_of_names = sorted({job_id for job_id, _ in wanted})
    named |= await diff_store.object_names(tx, jobs_of_names)
    named |= await json_store.object_names(tx, jobs_of_names)
    open_rows = await attempt_reads.without_result(tx, wanted)
    marks = {
        content.folder(row["job_id"], row["number"]): row["mark"]
        for row in open_rows
        if row["ended_at"] is None or row["ended_at"] > tx.now - late_seconds
    }
    return named | {name for name in names if _is_awaited(name, marks)}


def _is_awaited(name: str, marks: dict[str, int]) -> bool:
    folder, _, file = name.rpartition("/")
    number = file.partition("_")[0]
    return folder in marks and bool(_NUMBER.match(number)) and int(number) > marks[folder]


def _is_brought(item: Listed) -> bool:
    """Return whether an object is a state that no job wrote. It has its own id in place of a job's."""
    return item.name.startswith("states/sta_")


async def _of_unknown_jobs(tx: Tx, names: Sequence[str]) -> set[str]:
    """Return those of <kind>/<job>/… whose job has no row here."""
    known = await jobs.known(tx, sorted({name.split("/")[1] for name in names}))
    return {name for name in names if name.split("/")[1] not in known}


async def _parts(tx: Tx, names: Sequence[str], _: float) -> set[str]:
    ids = sorted({name.split("/")[1] for name in names})
    kept = await uploads.known(tx, ids)
    return {name for name in names if name.split("/")[1] in kept}


async def _releases(tx: Tx, names: Sequence[str], _: float) -> set[str]:
    """A file of a release that is published, or that was uploaded for one and is not forgotten yet."""
    return await releases.named_objects(tx, names) | await uploads.results(tx, names)


async def _probes(_: Tx, __: Sequence[str], ___: float) -> set[str]:
    """Test objects of servers that were stopped before they deleted them."""
    return set()


KINDS: dict[str, Needed] = {
    "logs": _logs,
    "plans": _plans,
    "states": _states,
    "parts": _parts,
    "probes": _probes,
    "releases": _releases,
}
_OF_JOBS = frozenset({"logs", "plans", "states"})


async def sweep(
    db: Database, objects: Objects, late_seconds: float, *, is_dry: bool = False, grace_seconds: float = GRACE_SECONDS
) -> dict[str, Tally]:
    """Delete all orphans, or only count them. Returns how many there were of each kind, and their bytes."""
    found: dict[str, Tally] = {}
    for kind in KINDS:
        total = Tally()
        async for page in objects.listing(kind):
            orphans = await _orphans(db, kind, page, late_seconds, grace_seconds)
            total += Tally(len(orphans), sum(each.size for each in orphans))
            if not is_dry:
                for each in orphans:
                    await objects.delete(each.name)
        if not is_dry:
            await objects.remove_empty_folders(kind, grace_seconds)
        if total.count:
            found[kind] = total
    return found


async def _orphans(
    db: Database, kind: str, page: list[Listed], late_seconds: float, grace_seconds: float
) -> list[Listed]:
    async def work(tx: Tx) -> list[Listed]:
        # The times of objects come from another clock: where it is behind the time in use, a new object must not count as old.
        now = min(tx.now, time.time())
        before, before_brought = now - grace_seconds, now - BROUGHT_GRACE_SECONDS
        old = [each for each in page if each.modified_at <= before]
        if not old:
            return []
        names = [each.name for each in old]
        kept = await KINDS[kind](tx, names, late_seconds)
        if kind in _OF_JOBS:
            abandoned = {each.name for each in old if _is_brought(each) and each.modified_at <= before_brought}
            kept |= await _of_unknown_jobs(tx, names) - abandoned
        # These objects have a row in the table of deletions, and are deleted later.
        kept |= await store.waiting_deletions(tx, names)
        return [each for each in old if each.name not in kept]

    return await db.read_in_background(work)
