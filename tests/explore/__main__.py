"""`python -m tests.explore [ATTEMPTS FAULTS]`: the larger walk, bound by bound, and every sentence switched off."""

import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import NamedTuple

from tests.explore.moves import Bounds
from tests.explore.search import START, Found, Walk
from tests.explore.sentences import RETRIED, SENTENCES
from tests.explore.server import Server
from tests.explore.world import World

LARGER_WALKS = (
    (Bounds(3, 3), START),
    (Bounds(2, 3, states=2, has_objects=True, has_pauses=True), START),
    (Bounds(4, 2), START),
    (Bounds(3, 2, has_objects=True, has_pauses=True), START),
    (Bounds(1, 5, states=2, has_objects=True, has_pauses=True), START),
    (Bounds(3, 3), RETRIED),
)
"""The longest first, so that no processor is left with it at the end."""


class Outcome(NamedTuple):
    text: str
    found: Found
    is_expected: bool


def walk_whole(bounds: Bounds, start: World) -> Outcome:
    """Walk with the server as it is: no rule breaks."""

    def say(line: str) -> None:
        print(f"  {bounds}: {line}", flush=True)

    found = Walk(Server(), bounds, start).run(say=say)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    verdict = "" if found.broken else "every rule holds; "
    jobs = "a job of a module that retries" if start == RETRIED else f"{len(start.jobs)} jobs"
    return Outcome(f"{bounds}, {jobs}:\n  {found}\n  {verdict}{megabytes:,} MB", found, not found.broken)


def walk_without(index: int) -> Outcome:
    """Walk with a server that lacks one sentence: the rule that it protects breaks."""
    sentence = SENTENCES[index]
    found = Walk(sentence.without(), sentence.bounds, sentence.start).run()
    return Outcome(f"without “{sentence.text}”: {found}", found, found.broken.startswith(sentence.breaks))


def main(arguments: list[str]) -> int:
    walks = ((Bounds(int(arguments[0]), int(arguments[1])), START),) if arguments else LARGER_WALKS
    began, failed, worlds = time.monotonic(), 0, 0
    with ProcessPoolExecutor(os.cpu_count(), max_tasks_per_child=1) as pool:
        tasks = [pool.submit(walk_without, index) for index in range(len(SENTENCES))]
        tasks += [pool.submit(walk_whole, bounds, start) for bounds, start in walks]
        for task in as_completed(tasks):
            outcome = task.result()
            failed += not outcome.is_expected
            worlds += 0 if outcome.found.broken else outcome.found.worlds
            print(f"{outcome.text}\n", flush=True)
    minutes = (time.monotonic() - began) / 60
    told = (
        "every rule holds, and every sentence is needed"
        if not failed
        else f"{failed} walks ended otherwise than expected"
    )
    print(f"{worlds:,} worlds in {minutes:.1f} minutes: {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
