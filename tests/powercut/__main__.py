"""`make powercut`: cut the power at every sync of a site's life, on a real ext4 and on the harshest disk there is."""

import argparse
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.powercut.recorder import Moment
from tests.powercut.run import Outcome, live

KEPT = Path("build/powercut")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make powercut", description=__doc__)
    parser.add_argument("--disk", choices=["model", "ext4"], action="append", help="one of the two disks only")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every Nth sync only")
    parser.add_argument("--first", type=int, default=1, metavar="N", help="begin with this sync")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it has started and mounted is cleaned up
    broken = 0
    for disk in arguments.disk or ["model", "ext4"]:

        def choose(moments: Sequence[Moment[Any]]) -> Sequence[Moment[Any]]:
            return moments[arguments.first - 1 :: arguments.every]

        try:
            life = live(disk, choose, told=_tell, kept=KEPT)
        except pytest.skip.Exception as missing:
            print(f"{disk}: {missing}")
            broken += 1
            continue
        broken += sum(bool(outcome.violations) for outcome in life.outcomes)
        print(f"\n{disk}: {life.moments} syncs, {life.promises} promises, {len(life.outcomes)} power cuts")
        for kind, count in sorted(Counter(outcome.kind for outcome in life.outcomes).items()):
            bad = sum(bool(outcome.violations) for outcome in life.outcomes if outcome.kind == kind)
            print(f"  {count:4} after a sync of {kind}" + (f": {bad} with violations" if bad else ""))
    print(
        f"not every promise was kept, or not everything could be tried. {KEPT} has the disk of each cut that broke one"
        if broken
        else "every promise was kept"
    )
    return 1 if broken else 0


def _tell(outcome: Outcome) -> None:
    verdict = "; ".join(outcome.violations) or "kept"
    print(f"{outcome.moment.number:4}  {outcome.seconds:5.1f} s  {outcome.kind}  {verdict}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
