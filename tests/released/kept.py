"""Keeps a version for later ones: a filled database of each kind, what its server answered about it, and its wheel.

    python -m tests.released.kept 0.1.0

writes `tests/released/0.1.0/`. It is run once, from the commit of the release, and its files are never made again.
"""

import asyncio
import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from terracrew import __version__
from tests.machine import wheels
from tests.machine.postgres_server import PostgresServer
from tests.released import answers
from tests.released.filling import fill

FOLDER = Path(__file__).parent
SQLITE, POSTGRES = "sqlite", "postgres"
_NOT_FOR_EVERY_SERVER = ("\\", "SET transaction_timeout")
"""How lines of a dump begin that only psql, or only newer servers, understand."""


def versions() -> list[str]:
    """Return the versions that are kept."""
    return sorted(each.name for each in FOLDER.iterdir() if (each / "sqlite.tar.xz").exists())


def promised() -> list[str]:
    """Return the kept versions whose runners and servers work with those of this version (docs/upgrades.md)."""
    return [each for each in versions() if is_promised(each, __version__)]


def is_promised(one: str, other: str) -> bool:
    """Return whether two versions are at most one minor version apart."""
    (major, minor), (other_major, other_minor) = (map(int, each.split(".")[:2]) for each in (one, other))
    return major == other_major and abs(minor - other_minor) <= 1


async def keep_database(folder: Path, kind: str, database_url: str = "") -> None:
    """Fill a new server, and write its data and its answers into the folder."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / "data"
        async with answers.open_again(database_url, data) as application:
            await fill(application)
            first = await answers.read(application)
        async with answers.open_again(database_url, data) as application:
            found = answers.without_changes(first, await answers.read(application))
        folder.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(data, "data")
        (folder / f"{kind}.tar.xz").write_bytes(lzma.compress(packed.getvalue()))
        _write(folder / f"{kind}.json.xz", found)
        if database_url:
            dump = ["pg_dump", "--inserts", "--no-owner", "--no-privileges", "--dbname", database_url]
            (folder / "postgres.sql.xz").write_bytes(
                lzma.compress(subprocess.run(dump, check=True, capture_output=True, timeout=120).stdout)
            )


def unpack(folder: Path, kind: str, target: Path, database_url: str = "") -> tuple[Path, dict[str, Any]]:
    """Restore the data of a kept version. Returns the data directory, and what its server answered."""
    archive = lzma.decompress((folder / f"{kind}.tar.xz").read_bytes())
    subprocess.run(["tar", "--extract", "--no-same-owner", "--directory", str(target)], input=archive, check=True)
    if database_url:
        lines = lzma.decompress((folder / "postgres.sql.xz").read_bytes()).decode().splitlines()
        script = "\n".join(line for line in lines if not line.startswith(_NOT_FOR_EVERY_SERVER))
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(script.encode())
    return target / "data", json.loads(lzma.decompress((folder / f"{kind}.json.xz").read_bytes()))


def wheel_of(version: str) -> Path:
    [found] = (FOLDER / version).glob("*.whl")
    return found


def _write(file: Path, found: Any) -> None:
    file.write_bytes(lzma.compress(json.dumps(found, indent=1, sort_keys=True).encode()))


async def _keep(version: str) -> None:
    folder = FOLDER / version
    if folder.exists():
        raise SystemExit(f"{folder} exists: a version is kept once")
    if version != __version__:
        raise SystemExit(f"this tree is {__version__}, and not {version}")
    await keep_database(folder, SQLITE)
    with PostgresServer.running() as server, server.unmigrated_database() as url:
        await keep_database(folder, POSTGRES, url)
    shutil.copy(wheels.build(version), folder)
    for file in sorted(folder.iterdir()):
        print(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    asyncio.run(_keep(sys.argv[1] if len(sys.argv) > 1 else __version__))
