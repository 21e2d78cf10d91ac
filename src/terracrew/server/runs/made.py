"""Finds in the log of an apply which resources the engine changed. OpenTofu and Terraform print the same lines."""

import itertools
import re
from collections.abc import Iterable

from terracrew.escapes import ESCAPES
from terracrew.protocol.events import Stream
from terracrew.server.db.seam import Tx
from terracrew.server.logs import chunk_reads, chunks
from terracrew.server.logs.ending import Ending
from terracrew.server.runs.model import LoggedChange

MAX_LOG_BYTES = 2 << 20
"""How much of a log is read, from its end, to answer one question."""
MAX_RESOURCES = 200
MAX_LINE_CHARACTERS = 4096
"""A longer line is skipped. An engine does not print one about a resource, but a provider or a script can print anything."""
_ID_START = " [id="
_DONE = re.compile(r"^(?P<address>\S.*?): (?P<what>Creation|Modifications|Destruction) complete after \S+(?P<rest>.*)$")
_STARTED = re.compile(r"^(?P<address>\S.*?): (?P<what>Creating|Modifying|Destroying)\.\.\.(?P<rest>.*)$")
_FINISHED = {"Creation": "created", "Modifications": "changed", "Destruction": "destroyed"}
_BEGUN = {"Creating": "creating", "Modifying": "changing", "Destroying": "destroying"}


def made(lines: Iterable[str]) -> list[LoggedChange]:
    """Return every resource that these lines name as changed, or as being changed and not finished, in the order of the log."""
    found: dict[str, LoggedChange] = {}
    for coloured in lines:
        if len(coloured) > MAX_LINE_CHARACTERS or (" complete after " not in coloured and "ing..." not in coloured):
            continue
        line = ESCAPES.sub("", coloured)
        if match := _DONE.match(line):
            before = found.pop(match["address"], None)
            id_ = _id_of(match["rest"])
            if id_ is None:
                id_ = before.id if before else ""
            found[match["address"]] = LoggedChange(match["address"], _FINISHED[match["what"]], id_)  # pyright: ignore[reportArgumentType]
        elif match := _STARTED.match(line):
            id_ = _id_of(match["rest"]) or ""
            found[match["address"]] = LoggedChange(match["address"], _BEGUN[match["what"]], id_)  # pyright: ignore[reportArgumentType]
    return list(found.values())


def _id_of(rest: str) -> str | None:
    """Return the id at the end of a line. A regular expression would take time that grows with the square of the line's length."""
    start = rest.find(_ID_START)
    return rest[start + len(_ID_START) : -1] if start >= 0 and rest.endswith("]") else None


async def since(
    tx: Tx, job_id: str, attempt: int, event: int, moved: Ending | None = None
) -> tuple[list[LoggedChange], bool]:
    """Return what the attempt's log says after this event, and whether the log was too long to be read from there.

    `moved` is the end of the part that is in the object store, which a transaction cannot read.
    """
    moved = moved or Ending()
    rows = await chunk_reads.sizes_after(tx, job_id, attempt, max(event, moved.last))
    total, start = 0, None
    for row in rows:
        total += row["size"]
        if total > MAX_LOG_BYTES:
            break
        start = row["first"]
    if start is None and rows:
        return [], True
    kept = [] if start is None else await chunk_reads.data_from(tx, job_id, attempt, start)
    is_cut = total > MAX_LOG_BYTES
    records = itertools.chain(() if is_cut else moved.records(), *(chunks.records(data) for data in kept))
    text = b"".join(record.payload for number, record in records if number > event and record.stream == Stream.OUTPUT)
    found = made(text.decode(errors="replace").splitlines())
    is_cut = is_cut or len(found) > MAX_RESOURCES or (not moved.is_whole and event < moved.first)
    return found[-MAX_RESOURCES:], is_cut
