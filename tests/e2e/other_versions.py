"""Processes of other versions of Terracrew: real wheels of this tree with another version, protocol or migration, each unpacked to a
directory that comes before the environment of the tests.

A version here knows what this tree knows; what makes it another version is what it says, speaks and does to the database.
"""

import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from importlib.util import cache_from_source
from pathlib import Path

import terracrew
from terracrew.server.db.migrate import known
from tests.machine import wheels
from tests.server.db.table_owners import STORES

_SOURCES = Path(terracrew.__file__).parent
NEXT_MIGRATION = known()[-1].number + 1


def environment_of(version: str, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which processes, and the executors that they start, are of this version."""
    wheel = wheels.build(version, changes)
    return environment_from(wheel, wheel.parent / "unpacked")


def environment_from(wheel: Path, unpacked: Path) -> dict[str, str]:
    """Return the environment in which processes are of the version of this wheel, which is unpacked to this directory once."""
    if not unpacked.exists():
        with tempfile.TemporaryDirectory(dir=unpacked.parent) as folder:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(folder)
            _take_bytecode(Path(folder) / "terracrew")
            made = Path(folder).rename(unpacked.parent / f"made-{os.getpid()}")
            Path(folder).mkdir()
        made.rename(unpacked)
    return {"PYTHONPATH": str(unpacked)}


def _take_bytecode(package: Path) -> None:
    """Give unchanged files the bytecode of this tree, instead of compiling hundreds of them for each version, which takes seconds."""
    for file in package.rglob("*.py"):
        source = _SOURCES / file.relative_to(package)
        compiled = Path(cache_from_source(str(source)))
        if source.exists() and compiled.exists() and source.read_bytes() == file.read_bytes():
            os.utime(
                file, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns)
            )  # the bytecode says which time it is of
            kept = Path(cache_from_source(str(file)))
            kept.parent.mkdir(exist_ok=True)
            shutil.copy(compiled, kept)


def speaking(oldest: int, newest: int) -> dict[str, str]:
    """Return the file of a version that speaks these versions of the protocol."""
    text = (_SOURCES / "protocol" / "version.py").read_text()
    for name, number in (("OLDEST_VERSION", oldest), ("NEWEST_VERSION", newest)):
        text = re.sub(rf"^{name} = \d+$", f"{name} = {number}", text, flags=re.MULTILINE)
    return {"protocol/version.py": text}


def adding(number: int = NEXT_MIGRATION) -> dict[str, str]:
    """Return a migration that older servers can live with: a new column in every table."""
    columns = "".join(f"ALTER TABLE {table} ADD COLUMN of_tomorrow text DEFAULT 'later';\n" for table in sorted(STORES))
    return {f"server/db/migrations/{number:04}_of_tomorrow.sql": f"-- older servers: continue\n{columns}"}


def changing(number: int = NEXT_MIGRATION) -> dict[str, str]:
    """Return a migration that does not say that older servers can live with it."""
    return {f"server/db/migrations/{number:04}_other_ways.sql": "CREATE TABLE other_ways (id text);\n"}
