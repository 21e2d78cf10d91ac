"""The first process of a container that runs one attempt: `python -m terracrew.executor.container`. It needs no shell."""

import signal
import sys

from terracrew.executor.container.reaper import WAITED_FOR


def main() -> int:
    # The kernel drops a signal that the first process of a container neither handles nor blocks. Loading the rest takes longer
    # than everything before it.
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
    from terracrew.executor.container import commands

    return commands.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
