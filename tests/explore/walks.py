"""The walks of `make explore` and `make explore ARGS=longest`, each of which a process of its own can make."""

import resource
from typing import NamedTuple

from tests.explore.moves import Bounds
from tests.explore.search import START, Found, Walk
from tests.explore.sentences import ALONE, APPROVED, CHOSEN, RETRIED, SENTENCES, TWO, WITH_NEW_JOB
from tests.explore.server import Server
from tests.explore.world import World

LARGER_WALKS = (
    (Bounds(3, 3), RETRIED),
    (Bounds(3, 3), ALONE),
    (Bounds(3, 3), APPROVED),
    (Bounds(3, 2), START),
    (Bounds(2, 2, states=2, has_objects=True, has_pauses=True), START),
    (Bounds(1, 5, states=2, has_objects=True, has_pauses=True), START),
    (Bounds(2, 2), WITH_NEW_JOB),
    (Bounds(3, 2), CHOSEN),
    (Bounds(2, 0, has_set_back=True), CHOSEN),
    (Bounds(2, 1, has_set_back=True), ALONE),
    (Bounds(2, 1, has_set_back=True), APPROVED),
    (Bounds(3, 0, has_set_back=True), ALONE),
    (Bounds(2, 0, has_set_back=True), START),
    (Bounds(2, 0, has_set_back=True), WITH_NEW_JOB),
    (Bounds(2, 0, has_set_back=True), TWO),
)
"""The longest first, so that no processor is left with it at the end."""
LONGEST_WALKS = (
    (Bounds(2, 3, states=2, has_objects=True, has_pauses=True), START),
    (Bounds(4, 2), START),
    (Bounds(3, 2, has_objects=True, has_pauses=True), START),
    (Bounds(3, 2), WITH_NEW_JOB),
)
"""Each of them takes longer than all of the others together, and gigabytes of memory."""
JOBS = {
    START: "two jobs, one of which needs an approval",
    WITH_NEW_JOB: "two jobs, one of which is created later",
    CHOSEN: "two jobs, one of which applies the plan of a PLAN job",
    TWO: "two jobs",
    ALONE: "one job",
    APPROVED: "one job, which needs an approval",
    RETRIED: "one job of a module that retries",
}


class Outcome(NamedTuple):
    text: str
    found: Found
    is_expected: bool


def walk_whole(bounds: Bounds, start: World) -> Outcome:
    """Walk with the server as it is: no rule breaks."""

    def say(line: str) -> None:
        print(f"  {bounds}, {JOBS[start]}: {line}", flush=True)

    found = Walk(Server(), bounds, start).run(say=say)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    verdict = "" if found.broken else "every rule holds; "
    return Outcome(f"{bounds}, {JOBS[start]}:\n  {found}\n  {verdict}{megabytes:,} MB", found, not found.broken)


def walk_without(index: int) -> Outcome:
    """Walk with a server that lacks one sentence: the rule that it protects breaks."""
    sentence = SENTENCES[index]
    found = Walk(sentence.without(), sentence.bounds, sentence.start).run()
    return Outcome(f"without “{sentence.text}”: {found}", found, found.broken.startswith(sentence.breaks))
