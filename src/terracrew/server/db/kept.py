"""Keeps answers that take tens of milliseconds for a large organization, and renews them while somebody asks for them.

The first request waits until its answer is read. While requests for it go on, a loop of the server renews it beside them.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import Any, Generic, TypeVar

from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, Tx

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
KEPT_SECONDS = 3.0
"""An answer that is older than this is not used."""
RENEWAL_SECONDS = 2.0
ASKED_WITHIN_SECONDS = 15.0
"""An answer that nobody asked for in this time is not renewed. An open page asks every ten seconds."""
MAX_ANSWERS = 1_000


class KeptAnswers(Generic[K, V]):
    """`read` returns the answers to questions, and `is_large` which of them are worth keeping.

    Requests and the loop run in several threads, so each change of a dictionary here is one atomic call.
    A question names an organization or a place by its id. It says nothing about who asks: permissions are looked up each time.
    """

    def __init__(
        self, read: Callable[[Tx, Collection[K]], Awaitable[dict[K, V]]], is_large: Callable[[K, V], bool]
    ) -> None:
        self._read = read
        self._is_large = is_large
        self._answers: dict[K, tuple[float, V]] = {}
        self._asked_at: dict[K, float] = {}

    async def get(self, tx: Tx, questions: Collection[K]) -> dict[K, V]:
        """Return the answers, each of them as it is now or was up to `KEPT_SECONDS` ago."""
        found = {
            question: answer[1]
            for question in questions
            if (answer := self._answers.get(question)) is not None and 0 <= tx.now - answer[0] < KEPT_SECONDS
        }
        found |= await self._read_anew(tx, [question for question in questions if question not in found])
        self._asked_at.update({question: tx.now for question in questions if question in self._answers})
        return found

    async def renew(self, db: Database) -> None:
        """Read the answers again that were requested recently."""

        async def work(tx: Tx) -> None:
            since = tx.now - ASKED_WITHIN_SECONDS
            for question, at in list(self._asked_at.items()):
                if at <= since:
                    self._asked_at.pop(question, None)
                    self._answers.pop(question, None)
            await self._read_anew(tx, list(self._asked_at))

        if self._asked_at:
            await db.read_in_background(work)

    async def _read_anew(self, tx: Tx, questions: Sequence[K]) -> dict[K, V]:
        found = await self._read(tx, questions) if questions else {}
        for question, answer in found.items():
            if not self._is_large(question, answer):
                continue
            if len(self._answers) >= MAX_ANSWERS:
                self._answers, self._asked_at = {}, {}
            self._answers[question] = tx.now, answer
        return found


async def renew_regularly(db: Database, kept: Sequence[KeptAnswers[Any, Any]]) -> None:
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        for answers in kept:
            with contextlib.suppress(Unavailable):  # the next request then reads the answer itself
                await answers.renew(db)
