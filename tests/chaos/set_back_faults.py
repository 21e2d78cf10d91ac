"""Faults that set the database back: a backup of a moment ago is restored, or a replica that lags takes over."""

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import psycopg

from terracrew.server.history.points import FILE_NAME
from terracrew.server.maintenance.backup import MANIFEST
from tests.chaos import set_back
from tests.chaos.set_back import Contents
from tests.chaos.targets import Struck, Targets

_LAG_SECONDS = (5, 40)
"""How old the copy is when it takes over."""
_CLOCK_SECONDS = 30
"""How long no clock jumps afterwards. Holds and what was lost are compared by the clock of the database (ADR 0071)."""


class SetBackFaults:
    def __init__(self, targets: Targets) -> None:
        self._targets, self._site, self._random = targets, targets.site, targets.random

    def restore(self) -> Struck | None:
        """Make a backup of SQLite as a person would, kill the server some time later, and start it on the backup."""
        [server] = self._site.servers.values()
        clock = f"clock of {server.name}"
        if clock in self._targets.busy:
            return None
        data = self._site.directory / server.name
        backup = Path(tempfile.mkdtemp(prefix="backup-", dir=self._site.directory)) / "data"
        self._site.terracrew("server", "--data-dir", str(data), "backup", str(backup))
        self._targets.busy.add(clock)

        def take_over() -> Struck:
            hit, is_wanted = self._targets.everywhere(), server.is_wanted
            server.kill()
            lost, kept = _read_file(data), _read_file(backup)
            known_by = self._random.choice(["its manifest", "its runners", "the server's own memory"])
            if known_by != "its manifest":
                (backup / MANIFEST).unlink()
            if known_by == "the server's own memory" and (data / FILE_NAME).exists():
                shutil.copy(data / FILE_NAME, backup)
            shutil.rmtree(data)
            shutil.move(backup, data)
            self._site.set_backs.append(set_back.compare(time.monotonic(), lost, kept))
            if is_wanted:
                server.start()
            stage = f"the backup is restored, known by {known_by}"
            return Struck(server.name, hit, _CLOCK_SECONDS, lambda: self._targets.busy.discard(clock), stage)

        return Struck(server.name, (), self._random.uniform(*_LAG_SECONDS), take_over)

    def fail_over(self) -> Struck | None:
        """Copy PostgreSQL as a replica does, and let the copy take over some time later, under running servers."""
        postgres = self._site.postgres
        clock = "clock of postgres"
        if postgres is None or self._targets.busy & {"postgres", clock}:
            return None
        replica = postgres.replicate()
        self._targets.busy.add(clock)

        def take_over() -> Struck:
            hit = self._targets.everywhere()
            postgres.stop(is_immediate=True)
            contents: list[Contents] = []
            for data in (postgres.data, replica):
                with postgres.alone(data) as url, psycopg.connect(url) as connection:
                    contents.append(set_back.read(connection))
            postgres.replace_data(replica)
            self._site.set_backs.append(set_back.compare(time.monotonic(), *contents))
            if "postgres" not in self._targets.busy:
                postgres.start()
            return Struck(
                "postgres", hit, _CLOCK_SECONDS, lambda: self._targets.busy.discard(clock), "the replica takes over"
            )

        return Struck("postgres", (), self._random.uniform(*_LAG_SECONDS), take_over)


def _read_file(data: Path) -> Contents:
    with closing(sqlite3.connect(data / "terracrew.db")) as connection:
        return set_back.read(connection)
