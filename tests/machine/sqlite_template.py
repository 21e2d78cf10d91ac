"""Copies of one migrated, empty SQLite file: to copy it takes a hundredth of the time of all migrations."""

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from tests.machine.postgres_server import migrate


def memory() -> str | None:
    """The directory of files in memory, where syncs cost nothing; None where the machine has none."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def copy_template(file: Path) -> Path:
    """Make a migrated, empty database at this place, readable by its owner alone, as the server makes it."""
    return Path(shutil.copy(_template(), file))


@cache
def _template() -> Path:
    folder = tempfile.mkdtemp(prefix="template-", dir=memory())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = Path(folder) / "terracrew.db"
    migrate(str(file))
    return file
