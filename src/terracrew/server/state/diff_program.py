"""The program that computes one diff or searches one, in a process of its own: it reads a task from its input and prints the answer.

The process ends with its answer, so it keeps no state in memory, and it has no secret of the server: it is told only what to
compare. It yields the processor to the server.
"""

import os
import resource
import sys

import msgspec

from terracrew.errors import Invalid
from terracrew.plan_diff.document import DiffDocument, DiffPage, DiffQuery
from terracrew.server.state import differences
from terracrew.system import procfs

_NICE_LEVEL = 10
_MAX_MEMORY_BYTES = 2 << 30
_MAX_CPU_SECONDS = 60
"""It ends a process whose server has ended before it."""


class CompareTask(msgspec.Struct, frozen=True, tag="compare"):
    before: bytes
    after: bytes


class SearchTask(msgspec.Struct, frozen=True, tag="search"):
    document: bytes
    query: DiffQuery


class DiffAnswer(msgspec.Struct, frozen=True):
    """The document of a comparison, or the page of a search, or why there is none."""

    document: bytes = b""
    page: DiffPage | None = None
    problem: str = ""


Task = CompareTask | SearchTask
_task = msgspec.msgpack.Decoder(Task)


def answer(task: Task) -> DiffAnswer:
    try:
        match task:
            case CompareTask():
                return DiffAnswer(differences.compared(task.before, task.after))
            case SearchTask():
                return DiffAnswer(page=DiffDocument(task.document).page(task.query))
    except Invalid as error:
        return DiffAnswer(problem=error.message)
    except MemoryError:
        return DiffAnswer(problem="comparing these states takes too much memory")


def main() -> None:
    procfs.forbid_inspection()
    os.nice(_NICE_LEVEL)
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MAX_CPU_SECONDS, _MAX_CPU_SECONDS))
    found = answer(_task.decode(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(msgspec.msgpack.encode(found))


if __name__ == "__main__":
    main()
