"""`python -m tests.chaos`: attack a whole installation for some minutes and report the outcome."""

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from tests.chaos.installation import Plan
from tests.chaos.run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--servers", type=int, help="SQLite has one [3]")
    parser.add_argument("--runners", type=int, default=20)
    parser.add_argument("--modules", type=int, default=30, help="for the stand-in engine")
    parser.add_argument("--real-modules", type=int, default=4, help="for the real OpenTofu")
    parser.add_argument("--busy", type=int, default=24, help="how many jobs are kept unfinished")
    parser.add_argument("--every", type=float, default=2, help="mean seconds between two faults")
    parser.add_argument(
        "--longest", type=float, default=90, help="seconds of the longest pause; partitions may be longer in proportion"
    )
    parser.add_argument("--lease", type=float, default=60, help="the servers' apply lease, in seconds")
    parser.add_argument("--settle", type=float, default=600, help="seconds to wait for all jobs to end after the storm")
    parser.add_argument("--fault", action="append", default=[], help="only this one; may be given more than once")
    parser.add_argument("--keep", action="store_true", help="keep the logs and the disks of all hosts")
    parser.add_argument("--quiet", action="store_true", help="do not tell each fault as it strikes")
    given = parser.parse_args()
    servers = 1 if given.database == "sqlite" else given.servers or 3
    plan = Plan(
        database=given.database,
        servers=servers,
        runners=given.runners,
        modules=given.modules,
        real_modules=given.real_modules,
        busy=given.busy,
        storm_seconds=given.minutes * 60,
        settle_seconds=given.settle,
        lease_seconds=given.lease,
        longest=given.longest,
        every=given.every,
        seed=given.seed,
        faults=tuple(given.fault),
    )
    signal.signal(signal.SIGTERM, _end)
    directory = Path(tempfile.mkdtemp(prefix="terracrew-chaos-"))
    try:
        outcome = run(plan, directory, is_loud=not given.quiet)
    finally:
        if not given.keep:
            shutil.rmtree(directory, ignore_errors=True)
    print(outcome.text)
    if given.keep:
        print(f"kept in {directory}")
    return 1 if outcome.violations else 0


def _end(*_: object) -> None:
    """Exit by an exception, so that all processes of the installation are cleaned up."""
    sys.exit(143)


if __name__ == "__main__":
    sys.exit(main())
