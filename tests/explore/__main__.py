"""`python -m tests.explore [ATTEMPTS FAULTS]`: the larger walk, bound by bound, and every sentence switched off."""

import resource
import sys

from tests.explore.moves import Bounds
from tests.explore.search import Walk
from tests.explore.sentences import SENTENCES
from tests.explore.server import Server

BOUNDS = (
    Bounds(1, 99, states=2, has_objects=True, has_pauses=True),
    Bounds(2, 3, states=2, has_objects=True, has_pauses=True),
    Bounds(3, 2, has_objects=True, has_pauses=True),
    Bounds(3, 3),
)


def main(arguments: list[str]) -> int:
    failed = 0
    for sentence in SENTENCES:
        found = Walk(sentence.without(), sentence.bounds, sentence.start).run()
        failed += not found.broken.startswith(sentence.breaks)
        print(f"without “{sentence.text}”: {found}\n", flush=True)
    given = [Bounds(attempts=int(arguments[0]), faults=int(arguments[1]))] if arguments else BOUNDS
    for bounds in given:
        print(bounds, flush=True)
        found = Walk(Server(), bounds).run(say=lambda line: print(f"  {line}", flush=True))
        failed += bool(found.broken)
        megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"  {found}\n  {'' if found.broken else 'every rule holds; '}{megabytes:,} MB\n", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
