"""The runner process itself, started by `terracrew runner start` with its checked settings in a descriptor."""

import asyncio
import logging
import signal
import sys

from terracrew import logging as diagnostics
from terracrew import procfs
from terracrew.errors import TerracrewError
from terracrew.runner import handover
from terracrew.runner.config import RunnerConfig
from terracrew.runner.main import run
from terracrew.runner.stop import Stop

log = logging.getLogger("terracrew.runner")


async def _run(config: RunnerConfig) -> None:
    stop, loop = Stop(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.request)
    await run(config, stop, set_levels=lambda levels: diagnostics.configure(config.log_level | levels))


def main() -> int:
    procfs.forbid_inspection()
    config = handover.accept(int(sys.argv[1]))
    diagnostics.configure(config.log_level)
    try:
        asyncio.run(_run(config))
    except TerracrewError as error:
        log.critical("%s", error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
