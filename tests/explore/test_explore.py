"""Every order of events within the bounds, through the very functions that decide; and each sentence of the design switched off.

The bounds here take half a minute. `make explore` walks the larger ones: run it after every change of a decision.
"""

from functools import cache

import pytest

from tests.explore import rules
from tests.explore.moves import Bounds
from tests.explore.search import START, Found, Walk
from tests.explore.sentences import (
    ALONE,
    APPROVED,
    CHOSEN,
    ONE_RUNNER,
    RETRIED,
    SENTENCES,
    TWO,
    TWO_ON_ONE_RUNNER,
    WITH_NEW_JOB,
    QueuedAgainGoesBehind,
    Sentence,
)
from tests.explore.server import Server
from tests.explore.world import Job, World, with_job
from tests.thoroughness import thorough

pytestmark = pytest.mark.timeout(600)  # for a busy machine; alone, the largest walk takes ten seconds


@cache
def walk_whole(bounds: Bounds, start: World = START) -> Found:
    """Walk with the server as it is. Several sentences are switched off within the same bounds."""
    return Walk(Server(), bounds, start).run()


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param(
            Bounds(1, 2, states=2, has_objects=True, has_pauses=True), id="one attempt, two faults, everything apart"
        ),
        pytest.param(Bounds(2, 1, has_objects=True, has_pauses=True), id="two attempts, one fault, everything apart"),
        pytest.param(Bounds(2, 2), id="two attempts, two faults"),
        pytest.param(Bounds(3, 1), id="three attempts, one fault"),
    ],
)
def test_no_order_of_events_breaks_a_rule(bounds: Bounds) -> None:
    found = walk_whole(bounds)
    assert not found.broken, str(found)


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize("start", [ALONE, RETRIED], ids=["interrupted: ask", "interrupted: retry"])
def test_no_order_of_events_breaks_a_rule_for_one_job(start: World) -> None:
    """Three attempts of one job, with one fault."""
    found = walk_whole(Bounds(3, 1), start)
    assert not found.broken, str(found)


@pytest.mark.feature("S3.offers", "O3.doubt")
@pytest.mark.parametrize("bounds", [Bounds(2, 1), Bounds(1, 2)], ids=["two attempts", "two faults"])
def test_no_order_of_events_breaks_a_rule_where_a_job_is_claimed_when_it_is_created(bounds: Bounds) -> None:
    """A job is created and claimed at once, for a runner that is there, or that has just disconnected."""
    found = walk_whole(bounds, WITH_NEW_JOB)
    assert not found.broken, str(found)


@pytest.mark.feature("J8.plan-first", "O3.doubt")
@pytest.mark.parametrize(
    "bounds",
    [Bounds(2, 1), Bounds(1, 2), Bounds(1, 0, has_set_back=True)],
    ids=["two attempts", "two faults", "set back"],
)
def test_no_order_of_events_breaks_a_rule_where_a_job_applies_the_plan_of_another_one(bounds: Bounds) -> None:
    found = walk_whole(bounds, CHOSEN)
    assert not found.broken, str(found)


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    ("bounds", "start"),
    [
        pytest.param(Bounds(1, 1, has_set_back=True), ALONE, id="one attempt, one fault"),
        pytest.param(Bounds(2, 0, has_set_back=True), APPROVED, id="two attempts with approval"),
        pytest.param(Bounds(3, 0, has_set_back=True), ONE_RUNNER, id="three attempts"),
        pytest.param(Bounds(2, 0, has_set_back=True), TWO_ON_ONE_RUNNER, id="two jobs"),
    ],
)
def test_no_order_of_events_breaks_a_rule_if_the_database_is_set_back(bounds: Bounds, start: World) -> None:
    """The server forgets everything since any earlier moment, and what was claimed since goes on."""
    found = walk_whole(bounds, start)
    assert not found.broken, str(found)


class TrustsCredits(Server):
    """A server that trusts a credit, and does not let `decide.claim` decide."""

    def claim(self, world: World, j: int, r: int) -> World | None:
        alone = world._replace(jobs=tuple(each if i == j else Job("SUCCEEDED") for i, each in enumerate(world.jobs)))
        after = super().claim(alone, j, r)
        return None if after is None else with_job(world._replace(tries=after.tries), j, after.jobs[j])


def test_a_claim_that_is_not_decided_breaks_a_rule() -> None:
    found = Walk(TrustsCredits(), Bounds(2, 0), WITH_NEW_JOB).run()
    assert found.broken, str(found)


SLOW_SENTENCES = {
    "a termination report is compared with the mark",
    "doubts come back if what they were approved with is cut short",
    "who repeats its begin is heard",
    "a stale plan is not approved",
    "no self-adoption between begin and end",
}
"""Without these, a rule breaks only after a long walk."""


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    "sentence",
    [pytest.param(each, id=each.text, marks=[thorough] if each.text in SLOW_SENTENCES else []) for each in SENTENCES],
)
def test_without_this_sentence_a_rule_breaks(sentence: Sentence) -> None:
    """The explorer can fail: each sentence is there because of a trace, and with it the same bounds hold none."""
    found = Walk(sentence.without(), sentence.bounds, sentence.start).run()
    assert found.broken.startswith(sentence.breaks), str(found)
    assert found.trace
    whole = walk_whole(sentence.bounds, sentence.start)
    assert not whole.broken, str(whole)


def test_an_earlier_job_that_applies_after_a_later_one_breaks_a_rule() -> None:
    """The order of claims is what protects it, so the rule about claims is left out."""
    walk = Walk(QueuedAgainGoesBehind(), Bounds(3, 0), TWO)
    for name, asked in walk.rules.items():
        walk.rules[name] = tuple(rule for rule in asked if rule is not rules.claimed_in_order)
    found = walk.run()
    assert found.broken == rules.applied_in_order.__doc__, str(found)


def test_a_trace_is_told_in_words() -> None:
    sentence = next(sentence for sentence in SENTENCES if sentence.text == "a permit expires")
    trace = Walk(sentence.without(), sentence.bounds, sentence.start).run().trace
    assert trace[0] == "the server claims job 1 (attempt 1) for runner 1"
    assert trace[-2] == "the answer reaches the executor of attempt 1 of job 1, whose engine makes a first thing"
    assert trace[-1] == "now job 1 is QUEUED (attempt 2)"
