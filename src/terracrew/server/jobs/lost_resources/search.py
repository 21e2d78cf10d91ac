"""Searches the logs of attempts that were cut short for what they changed, and stores it: a log can be removed before the list.

Pulumi writes into its state what it has begun, so its states are searched, and not its log.
"""

import asyncio
from datetime import UTC, datetime

import msgspec

from terracrew.api.job_views import LogEvent
from terracrew.api.jobs import plain as plain_text
from terracrew.api.states import State
from terracrew.engine_rules import import_blocks
from terracrew.errors import Undecryptable
from terracrew.logging import get_logger
from terracrew.protocol.events import Stream
from terracrew.protocol.spec import MUTATING
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs.lost_resources import log_lines, store
from terracrew.server.jobs.lost_resources.model import FoundChange
from terracrew.server.jobs.lost_resources.store import CutShort
from terracrew.server.logs import reads
from terracrew.server.objects import Objects
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content, document, instance_ids
from terracrew.server.state import store as states
from terracrew.server.supervise import FailedRows

POLL_SECONDS = 1.0
MAX_ATTEMPTS = 20
"""The most logs that are searched in one step."""
MAX_CHANGES = 10_000
"""The most changes of an attempt that are stored; the last ones of its log count."""
MAX_STATES = 100
"""The most states of an attempt that are searched, the newest ones."""
log = get_logger("terracrew.server")


class LostResourceSearch:
    def __init__(self, db: Database, objects: Objects, keys: Keyring) -> None:
        self._db, self._objects, self._keys = db, objects, keys
        self._failed = FailedRows("lost resources")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.step()

    async def step(self) -> None:
        count = MAX_ATTEMPTS + len(self._failed)
        found = {each.key: each for each in await self._db.read(lambda tx: store.unsearched(tx, count))}
        due = self._failed.due(found)
        for key, each in found.items():
            if key in due:
                with self._failed.handling(key):
                    await search(self._db, self._objects, self._keys, each)


async def search_now(db: Database, objects: Objects, keys: Keyring, module_id: str) -> None:
    """Search the logs of a module's attempts that the loop has not come to yet."""
    for each in await db.read(lambda tx: store.unsearched_of_module(tx, module_id, MAX_ATTEMPTS)):
        await search(db, objects, keys, each)


async def search(db: Database, objects: Objects, keys: Keyring, attempt: CutShort) -> None:
    """Search one log, or the states. If more of it arrives meanwhile, it is searched again."""
    if attempt.engine == "pulumi":
        found = await _pending(db, objects, keys, attempt)
    else:
        reader = _LogReader()
        async for events in reads.events(db, objects, attempt.job_id, attempt.number):
            for event in events:
                reader.take(event)
        found = reader.finish()[-MAX_CHANGES:]

    async def work(tx: Tx) -> None:
        if await attempt_store.set_log_searched(tx, attempt.job_id, attempt.number, attempt.mark):
            await store.replace(tx, attempt.job_id, attempt.number, found)
            tx.wake("jobs", attempt.job_id)

    await db.write(work)
    if found:
        log.info("an attempt that was cut short reported changes", job=attempt.job_id, changes=len(found))


async def _pending(db: Database, objects: Objects, keys: Keyring, attempt: CutShort) -> list[FoundChange]:
    """Return what the states of an attempt say that Pulumi had begun. A state that is kept elsewhere, or cannot be read, says
    nothing.

    The last state has what was open at the end. If a provider was killed, Pulumi takes what this was creating out of its state as
    something that failed. Earlier states still have it.
    """
    found: dict[tuple[str, str], FoundChange] = {}
    left_bytes, is_last = instance_ids.MAX_READ_BYTES, True
    for state in await db.read(lambda tx: states.of_attempt(tx, attempt.job_id, attempt.number, MAX_STATES)):
        left_bytes -= state.size
        if left_bytes < 0:
            break
        for each in await _begun(db, objects, keys, state):
            if is_last or each.action == "creating":
                found.setdefault((each.address, each.action), each)
        is_last = False
    return sorted(found.values(), key=lambda each: each.event)[-MAX_CHANGES:]


async def _begun(db: Database, objects: Objects, keys: Keyring, state: State) -> list[FoundChange]:
    """Return what one state says that Pulumi had begun and not ended."""
    kept = await db.read(lambda tx: states.get(tx, state.id))
    if kept is None:  # it was removed at this moment
        return []
    try:
        plain = (await content.read(objects, keys, kept.context, kept.sealed)).content
        found = await asyncio.to_thread(document.pending, plain)
    except (Undecryptable, msgspec.MsgspecError):
        return []
    return [
        FoundChange(plain_text(each.address), each.action, plain_text(each.id), "", state.event, state.created_at)
        for each in found
    ]


class _LogReader:
    """Puts the pieces of the log together to lines, and remembers the last line about each resource."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, bool], FoundChange] = {}
        self._open = ""

    def take(self, event: LogEvent) -> None:
        if event.stream != Stream.OUTPUT or event.step not in MUTATING:
            return
        *lines, self._open = (self._open + event.text).split("\n")
        for line in lines:
            self._read(line, event)
        # A line that is too long already is skipped, so its beginning need not be remembered.
        self._open = self._open[-2 * log_lines.MAX_LINE_CHARACTERS :]

    def finish(self) -> list[FoundChange]:
        """Return the changes in the order of the log. A last line without an end may be cut off, so it is not used."""
        destroyed = {each.address: each.resource_id for each in self._found.values() if each.action == "destroyed"}
        return [
            msgspec.structs.replace(each, replaced_id=destroyed.get(each.address, ""))
            if each.action in ("created", "creating")
            else each
            for each in self._found.values()
        ]

    def _read(self, text: str, event: LogEvent) -> None:
        line = log_lines.read(text.removesuffix("\r"))
        if line is None or not import_blocks.type_of(
            line.address
        ):  # scripts print lines that only resemble the engine's
            return
        before = self._found.pop(line.subject, None)
        id_ = line.id or (before.resource_id if before and line.action.endswith("ed") else "")
        at = datetime.fromtimestamp(event.time, UTC)
        self._found[line.subject] = FoundChange(plain_text(line.address), line.action, plain_text(id_), "", event.n, at)
