"""The facts of pull requests never go back, whatever the order in which answers arrive; a command is carried out once."""

from collections.abc import Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.forges.model import PullRequest
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import decide, fact_store, repository_store
from terracrew.server.forges.model import ForgePullRequest
from tests.server.forges import forge_rows
from tests.server.forges.forge_rows import SINCE, comment, pull_request

pytestmark = pytest.mark.feature("F2.order")


async def save(db: Database, repository_id: str, question: int, *answers: PullRequest) -> list[ForgePullRequest]:
    return await db.write(lambda tx: fact_store.save_answers(tx, repository_id, answers, question))


async def test_a_pull_request_has_a_row_and_wakes_those_who_listen(database: Database) -> None:
    repository = await forge_rows.repository(database)
    with database.listen("pull_requests") as wakeups:
        [made] = await save(database, repository.id, 1, pull_request())
        assert await wakeups.get(timeout=5) == {("pull_requests", made.id)}
    assert made.revision == 1
    found = await database.read(lambda tx: fact_store.numbered(tx, repository.id, 1))
    assert found == made
    assert await database.read(lambda tx: fact_store.open_of(tx, repository.id)) == [made]


async def test_only_a_change_of_the_facts_increases_the_revision(database: Database) -> None:
    repository = await forge_rows.repository(database)
    [made] = await save(database, repository.id, 1, pull_request())
    commented = pull_request(updated_at=SINCE.replace(hour=13))
    assert await save(database, repository.id, 2, commented) == []
    [pushed] = await save(database, repository.id, 3, pull_request(head_commit="f" * 40))
    assert (pushed.id, pushed.revision, pushed.head_commit) == (made.id, 2, "f" * 40)


async def test_an_older_answer_replaces_nothing(database: Database) -> None:
    repository = await forge_rows.repository(database)
    await save(database, repository.id, 1, pull_request())
    [merged] = await save(database, repository.id, 3, pull_request(state="merged", merge_commit="a" * 40))
    assert await save(database, repository.id, 2, pull_request(head_commit="f" * 40)) == []
    assert await save(database, repository.id, 3, pull_request(head_commit="f" * 40)) == []
    assert await database.read(lambda tx: fact_store.get(tx, merged.id)) == merged


async def test_an_older_answer_replaces_nothing_also_if_the_newer_one_said_what_was_known(database: Database) -> None:
    repository = await forge_rows.repository(database)
    [made] = await save(database, repository.id, 1, pull_request())
    await save(database, repository.id, 3, pull_request())
    assert await save(database, repository.id, 2, pull_request(state="closed")) == []
    found = await database.read(lambda tx: fact_store.get(tx, made.id))
    assert found is not None
    assert found.is_open


async def test_questions_are_numbered_in_the_order_in_which_they_are_asked(database: Database) -> None:
    repository = await forge_rows.repository(database)
    asked = [await database.write(lambda tx: repository_store.ask(tx, repository.id)) for _ in range(3)]
    assert asked == [1, 2, 3]


async def test_only_commands_are_kept_and_each_counts_once(database: Database) -> None:
    repository = await forge_rows.repository(database)
    written = [comment("1"), comment("2", "looks good"), comment("3", "terracrew apply app\nplease"), comment("1")]

    async def again(tx: Tx) -> list[str]:
        return [
            each.comment_id for each in await fact_store.save_comments(tx, repository.id, written[:1] + written[1:3])
        ]

    assert await database.write(again) == ["1", "3"]
    assert await database.write(again) == []
    edited = [comment("1", "terracrew destroy")]
    assert await database.write(lambda tx: fact_store.save_comments(tx, repository.id, edited)) == []
    waiting = await database.read(lambda tx: fact_store.waiting_comments(tx, repository.id, 1))
    assert [each.body for each in waiting] == ["terracrew plan", "terracrew apply app\nplease"]
    assert await database.write(lambda tx: fact_store.handled(tx, waiting[0].id))
    assert not await database.write(lambda tx: fact_store.handled(tx, waiting[0].id))


STATES = st.sampled_from(["open", "closed", "merged"])


@given(st.lists(STATES, min_size=1, max_size=6), st.randoms())
def test_the_newest_question_decides_in_every_order_of_answers(states: Sequence[str], random: Random) -> None:
    """The reference is the list itself: the last question has the last answer."""
    answers = [(number, pull_request(state=state)) for number, state in enumerate(states, start=1)]
    shuffled = list(answers)
    random.shuffle(shuffled)
    stored: dict[int, ForgePullRequest] = {}
    for question, answer in shuffled:
        for change in decide.changes("frp_1", stored, [answer], question, SINCE):
            stored[answer.number] = change.after
    assert stored[1].state == states[-1]
    assert stored[1].question == len(states)


def test_what_is_missing_in_a_newer_list_has_vanished() -> None:
    known: dict[int, ForgePullRequest] = {}
    for change in decide.changes("frp_1", {}, [pull_request(number) for number in (1, 2, 3)], 4, SINCE):
        known[change.after.number] = change.after
    newer = msgspec.structs.replace(known[3], question=6)
    gone = decide.vanished([known[1], known[2], newer], [pull_request(1)], 5)
    assert [each.number for each in gone] == [2]
