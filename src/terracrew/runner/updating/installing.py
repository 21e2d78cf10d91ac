"""Unpacks the wheels of a release beside the version that runs, and has the new program check itself and the settings."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import installer
import msgspec
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile

from terracrew.errors import Invalid
from terracrew.runner import handover
from terracrew.runner.handover import Launch
from terracrew.runner.updating import versions
from terracrew.runner.updating.launcher import START_MODULE
from terracrew.system import durable, own_program, trees

CHECK_SECONDS = 60.0
"""How long the new program may take to import everything and to read the settings. External settings are read, too."""
_MAX_SHOWN_CHARACTERS = 1000


def install(folder: Path, version: str, wheels: Iterable[Path]) -> Path:
    """Unpack wheels, and return the overlay that they make. It exists under its name only when it is complete and on the disk."""
    overlay, draft = folder / version, folder / f".{version}.new"
    trees.remove_if_possible(draft)
    site = draft / own_program.SITE
    site.mkdir(parents=True, mode=0o700)
    try:
        for wheel in wheels:
            _unpack(wheel, draft)
        record = {"version": version, "python": versions.python_tag()}
        (draft / own_program.RECORD).write_bytes(msgspec.json.encode(record))
        durable.sync_file_system(draft)
        if overlay.exists():
            trees.remove(overlay)
        durable.rename(draft, overlay)
    except (ValueError, AssertionError) as error:  # what `installer` raises for a wheel that is not one
        trees.remove_if_possible(draft)
        raise Invalid(f"the release cannot be installed: {error}") from error
    except BaseException:
        trees.remove_if_possible(draft)
        raise
    return overlay


def _unpack(wheel: Path, draft: Path) -> None:
    site, rest = str(draft / own_program.SITE), str(draft / "other-files")
    places = {"purelib": site, "platlib": site, "scripts": rest, "data": rest, "headers": rest}
    with WheelFile.open(wheel) as source:
        installer.install(source, SchemeDictionaryDestination(places, sys.executable, "posix"), {})


def check(overlay: Path, version: str, launch: Launch, seconds: float = CHECK_SECONDS) -> None:
    """Have the new program import what a runner consists of and read the settings. Raises Invalid with what it says otherwise."""
    descriptor = handover.offer_launch(launch)
    try:
        ended = subprocess.run(
            own_program.command_in(str(overlay), START_MODULE, str(descriptor), "--check"),
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        raise Invalid(f"the new program did not end its check of the settings within {seconds:g} s") from None
    finally:
        os.close(descriptor)
    if ended.returncode:
        said = ended.stderr.decode(errors="replace").strip()[-_MAX_SHOWN_CHARACTERS:] or "it says nothing"
        raise Invalid(f"the new program ended its check of the settings with code {ended.returncode}: {said}")
    if (said := ended.stdout.decode(errors="replace").strip()) != version:
        raise Invalid(f"the new program says that it is version {said[:_MAX_SHOWN_CHARACTERS]!r}")


def remove_others(folder: Path, kept: Iterable[str]) -> None:
    """Remove the versions that are not started any more, and what interrupted updates left."""
    names = {*kept, *versions.FILES}
    if not folder.is_dir():
        return
    for each in folder.iterdir():
        if each.name not in names:
            if each.is_dir() and not each.is_symlink():
                trees.remove_if_possible(each)
            else:
                each.unlink(missing_ok=True)
