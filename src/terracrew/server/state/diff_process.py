"""Computes diffs in a process of its own, one at a time, so that neither the event loop nor a thread of the server waits for one.

A diff of large states takes seconds of processor time, and whoever may read two states may ask for it any number of times.
"""

import asyncio
import contextlib
import os
import sys
import zlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from terracrew.errors import Invalid, RateLimited, Unavailable
from terracrew.plan_diff.document import DiffDocument, DiffPage, DiffQuery
from terracrew.server.principals.model import Principal
from terracrew.server.state import diff_program
from terracrew.server.state.diff_program import CompareTask, DiffAnswer, SearchTask, Task

MAX_SECONDS = 20.0
"""How long one diff may take."""
MAX_WAIT_SECONDS = 20.0
"""How long a request waits for the diffs of others."""
MAX_KEPT_BYTES = 16 << 20
RETRY_AFTER_SECONDS = 1
SEARCHED_HERE_BYTES = 1 << 20
"""A document of at most this size is searched in a thread, which takes less time than to start a process."""
_INHERITED = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
"""The variables that the process gets. The others may contain secrets of the server."""
_answer = msgspec.msgpack.Decoder(DiffAnswer)


class DiffProcess:
    """Gives each principal one turn at a time, and keeps the documents that were computed last."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._turns = asyncio.Semaphore(1)
        self._busy: set[str] = set()
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._kept_bytes, self._max_kept_bytes = 0, max_kept_bytes

    @asynccontextmanager
    async def turn(self, who: Principal) -> AsyncGenerator[None]:
        """Wait until no other diff is computed. Raises RateLimited for somebody who waits for one already."""
        if who.id in self._busy:
            raise RateLimited(
                "you have asked for another comparison or search that is not done yet: try again when it is",
                retry_after=RETRY_AFTER_SECONDS,
            )
        self._busy.add(who.id)
        try:
            try:
                async with asyncio.timeout(MAX_WAIT_SECONDS):
                    await self._turns.acquire()
            except TimeoutError:
                raise Unavailable(
                    "the server compares other states at this moment: try again", retry_after=RETRY_AFTER_SECONDS
                ) from None
            try:
                yield
            finally:
                self._turns.release()
        finally:
            self._busy.discard(who.id)

    def kept(self, before: str, after: str) -> bytes | None:
        """Return the document of two states by their ids, whose contents never change. The caller has checked the rights."""
        if (found := self._kept.get((before, after))) is not None:
            self._kept.move_to_end((before, after))
        return found

    async def compare(self, pair: tuple[str, str], before: bytes, after: bytes) -> bytes:
        """Return the document of two states and keep it under their ids. The caller has the turn."""
        document = (await _computed(CompareTask(before, after))).document
        self._keep(pair, document)
        return document

    async def page(self, who: Principal, document: bytes, query: DiffQuery) -> DiffPage:
        """Read resources of a document. A large one is searched by the process, which needs a turn."""
        if not query.search or await asyncio.to_thread(_is_small, document):
            return await asyncio.to_thread(lambda: DiffDocument(document).page(query))
        async with self.turn(who):
            found = (await _computed(SearchTask(document, query))).page
        if found is None:
            raise Unavailable("the search has ended without an answer: try again", retry_after=RETRY_AFTER_SECONDS)
        return found

    def _keep(self, key: tuple[str, str], document: bytes) -> None:
        self._kept_bytes += len(document) - len(self._kept.pop(key, b""))
        self._kept[key] = document
        while self._kept_bytes > self._max_kept_bytes:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


def _is_small(document: bytes) -> bool:
    try:
        return len(zlib.decompressobj().decompress(document, SEARCHED_HERE_BYTES + 1)) <= SEARCHED_HERE_BYTES
    except zlib.error:
        return True  # reading it says what is wrong


async def _computed(task: Task) -> DiffAnswer:
    """Run the program for one task. Cancelling the call ends the program."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        diff_program.__name__,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _INHERITED if name in os.environ},
    )
    try:
        async with asyncio.timeout(MAX_SECONDS):
            printed, _ = await process.communicate(msgspec.msgpack.encode(task))
    except TimeoutError:
        raise Invalid(f"these states are not compared, because that takes longer than {MAX_SECONDS:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
    if process.returncode:
        raise Unavailable("the comparison has ended without an answer: try again", retry_after=RETRY_AFTER_SECONDS)
    found = _answer.decode(printed)
    if found.problem:
        raise Invalid(found.problem)
    return found
