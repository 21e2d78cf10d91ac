"""Starts the runner process. Its memory has to be arranged before it imports what it consists of."""

import sys

from terracrew.runner import heap


def main() -> int:
    if sys.argv[2:]:  # it forks a zygote, see `handover.command`
        heap.gather()
    from terracrew.runner import process

    return process.main()


if __name__ == "__main__":
    sys.exit(main())
