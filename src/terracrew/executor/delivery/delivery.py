"""What a living executor and the salvage of a dead one share: an attempt's outbox and the connections to the server."""

from pathlib import Path

from terracrew import __version__
from terracrew.attempt import delivered, encryption, exit_codes, files
from terracrew.attempt.record import AttemptRecord
from terracrew.attempt.remembered_points import RememberedPoints
from terracrew.executor.control import Control
from terracrew.executor.delivery.begin import ApplyPermit
from terracrew.executor.delivery.exchange import ConnectionLog
from terracrew.executor.delivery.large_states import LargeStates
from terracrew.executor.delivery.outbox import Outbox
from terracrew.executor.delivery.recorder import Offsets, Recorder
from terracrew.executor.delivery.shipper import Shipper
from terracrew.executor.delivery.transfer import Transfer
from terracrew.masking.redactor import Redactor
from terracrew.protocol import version
from terracrew.protocol.messages import ExecutorHello
from terracrew.protocol.start import LogStreamSettings


class AttemptDelivery:
    def __init__(
        self, directory: Path, record: AttemptRecord, settings: LogStreamSettings, *, is_salvage: bool = False
    ) -> None:
        self.directory = directory
        loopback = encryption.backend_secret(record.hub)
        self.control = Control()
        self.outbox = Outbox(directory / files.OUTBOX)
        self.large_states = LargeStates(directory / files.STATES, self.outbox.last)
        self.recorder = Recorder(
            self.outbox,
            Redactor([record.hub, loopback, encryption.backend_authorization(loopback), *record.secrets]),
            Offsets(directory / files.OUTPUT_OFFSET, self.outbox),
        )
        # A result ends the log, and a dead executor may have left one. A salvage therefore adds no lines here.
        connection_log = ConnectionLog(lambda line: None if is_salvage else self.recorder.note(line))
        self.transfer = Transfer(
            record.server_url, record.hub, record.job_id, record.attempt, self.control, connection_log
        )
        self.permit = ApplyPermit(self.control, self.recorder.say)
        self.history = RememberedPoints(directory / files.HISTORY)
        hello = ExecutorHello(
            record.job_id, record.attempt, __version__, version.OLDEST_VERSION, version.NEWEST_VERSION
        )
        self.shipper = Shipper(
            record.server_url,
            record.hub,
            hello,
            outbox=self.outbox,
            large_states=self.large_states,
            transfer=self.transfer,
            control=self.control,
            connection_log=connection_log,
            permit=self.permit,
            history=self.history,
            receipt=record.receipt,
            settings=settings,
            is_salvage=is_salvage,
        )

    async def finish(self) -> int:
        """Wait until the server has everything, which may take hours, and return the exit code."""
        if await self.shipper.deliver():
            delivered.mark_done(self.directory, self.outbox.last)
            return exit_codes.DELIVERED
        if self.control.is_refused_for_now:
            return exit_codes.INCOMPATIBLE
        delivered.mark_refused(self.directory, self.outbox.last)
        return exit_codes.UNDELIVERED
