"""An answer is kept and renewed while requests for it go on, and no longer."""

from collections.abc import Collection

from terracrew.server.db import Database, Tx
from terracrew.server.db.kept import ASKED_WITHIN_SECONDS, KEPT_SECONDS, KeptAnswers
from tests.builders.clock import ShiftedClock


async def test_an_answer_is_renewed_only_while_requests_for_it_go_on(database: Database, clock: ShiftedClock) -> None:
    """Symptoms: one open page never got a renewed answer, and the loop read the database each second for ever."""
    reads: list[list[str]] = []

    async def read(_: Tx, questions: Collection[str]) -> dict[str, int]:
        reads.append(list(questions))
        return dict.fromkeys(questions, len(reads))

    answers = KeptAnswers(read, lambda question, _: question == "large")

    async def ask() -> dict[str, int]:
        return await database.read(lambda tx: answers.get(tx, ["large", "small"]))

    assert await ask() == {"large": 1, "small": 1}
    clock.advance(KEPT_SECONDS + 1)
    await answers.renew(database)
    assert await ask() == {"large": 2, "small": 3}, "a single request is enough for a renewal of the large answer"
    clock.advance(ASKED_WITHIN_SECONDS + 1)
    await answers.renew(database)
    await answers.renew(database)
    assert reads == [["large", "small"], ["large"], ["small"]]
    assert await ask() == {"large": 4, "small": 4}
