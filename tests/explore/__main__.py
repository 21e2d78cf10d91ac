"""`python -m tests.explore [longest | ATTEMPTS FAULTS]`: the larger walks, bound by bound, and every sentence switched off."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.explore.moves import Bounds
from tests.explore.search import START
from tests.explore.sentences import SENTENCES
from tests.explore.walks import LARGER_WALKS, LONGEST_WALKS, walk_whole, walk_without


def main(arguments: list[str]) -> int:
    walks = LARGER_WALKS
    if arguments == ["longest"]:
        walks = LONGEST_WALKS
    elif arguments:
        walks = ((Bounds(int(arguments[0]), int(arguments[1])), START),)
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
