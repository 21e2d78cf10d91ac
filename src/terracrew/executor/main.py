"""The executor: a process that runs exactly one attempt of one job and reports all of it before it ends.

Order matters for speed: files, the state backend's socket and the engine come first; the connection is made while the engine
runs. Everything is imported here, since executors are forked from a process that has imported this module.
"""

import asyncio
import base64
import logging
import signal
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from terracrew import __version__
from terracrew.executor import salvage, statebackend
from terracrew.executor.aside import Aside
from terracrew.executor.begin import Leave
from terracrew.executor.control import Control
from terracrew.executor.engines import discovery
from terracrew.executor.outbox import Outbox, Reserve
from terracrew.executor.output import Output
from terracrew.executor.record import Offsets, Recorder
from terracrew.executor.redact import Redactor
from terracrew.executor.shipper import Shipper
from terracrew.executor.statebackend import StateBackend
from terracrew.executor.states import States
from terracrew.executor.steps import Steps
from terracrew.executor.supervise import supervise
from terracrew.executor.transfer import Transfer
from terracrew.protocol import version
from terracrew.protocol.events import Result
from terracrew.protocol.messages import ExecutorHello
from terracrew.protocol.spec import Credentials
from terracrew.protocol.start import AttemptRecord, ExecutorStart

DELIVERED = 0
UNDELIVERED = 3
"""The server refused this attempt for good; its directory holds what it would not take."""
_logger = logging.getLogger("terracrew.executor")


def warm(engine_paths: Sequence[str]) -> None:
    """Ask the engines for their versions ahead of time; executors forked afterwards need not."""
    discovery.find_all(engine_paths)


def run(start: ExecutorStart) -> int:
    """Run the attempt, or deliver what a dead executor left of it; the exit code of the process."""
    logging.basicConfig(
        handlers=[logging.FileHandler(Path(start.directory) / "executor.log", delay=True)], level=logging.WARNING
    )
    return asyncio.run(salvage.run(start) if start.is_salvage else _run(start))
