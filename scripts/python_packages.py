"""Builds the wheel and the source distribution of a commit twice, and fails unless every byte is the same.

The second build is in another folder, with another clock zone, language, umask and order of hashes, as it would be on the machine of
somebody who wants to check what was published. Both have only the files of the commit. hatchling is the one that uv.lock names.
"""

import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import version
from steps import step

_SECRETS = ("TERRACREW_TOKEN", "RELEASE_KEY", "RELEASE_KEY_PASSWORD")
"""What no program of a build needs."""
_OTHER_SURROUNDINGS = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "7", "HOME": "/nonexistent"}


def build(root: Path, commit: str, made: Path) -> list[Path]:
    """Put wheel and source distribution of a commit into a folder."""
    epoch = subprocess.check_output(["git", "log", "-1", "--format=%ct", commit], cwd=root, text=True).strip()
    with tempfile.TemporaryDirectory(prefix="terracrew-release-") as folder:
        first, second = Path(folder, "a"), Path(folder, "another", "place")
        with step("building wheel and source distribution"):
            _build_once(_export(root, commit, first), {"SOURCE_DATE_EPOCH": epoch}, 0o022)
        with step("building them again, elsewhere"):
            _build_once(_export(root, commit, second), _OTHER_SURROUNDINGS | {"SOURCE_DATE_EPOCH": epoch}, 0o077)
        names = sorted(each.name for each in (first / "dist").iterdir())
        _, different, missing = filecmp.cmpfiles(first / "dist", second / "dist", names, shallow=False)
        if different or missing:
            kept = Path(tempfile.mkdtemp(prefix="terracrew-different-"))
            for number, place in enumerate((first, second)):
                shutil.copytree(place / "dist", kept / str(number))
            sys.exit(
                f"not reproducible: {', '.join([*different, *missing])} differ between two builds; both are in {kept}"
            )
        with step("starting what is in the wheel"):
            _start(next((first / "dist").glob("*.whl")), root, Path(folder, "unpacked"))
        return [Path(shutil.copy(first / "dist" / name, made)) for name in names]


def _start(wheel: Path, root: Path, place: Path) -> None:
    """End with an error unless the command line in the wheel starts and prints the version. Dependencies are those of this Python."""
    shutil.unpack_archive(wheel, place, "zip")
    code = f"import sys; sys.path.insert(0, {str(place)!r}); from terracrew.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "--version"], cwd=place, check=False, capture_output=True, text=True
    )
    expected = f"terracrew {version.current(root)}\n"
    if done.stdout != expected:
        sys.exit(f"the wheel does not print {expected.strip()!r} but:\n{done.stdout}{done.stderr[-4000:]}")


def _export(root: Path, commit: str, place: Path) -> Path:
    """Write the files of the commit into a new folder, without what lies beside them in the checkout."""
    archive = subprocess.check_output(["git", "archive", "--format=tar", commit], cwd=root)
    place.mkdir(parents=True)
    subprocess.run(["tar", "--extract", "--directory", str(place)], input=archive, check=True)
    return place


def _build_once(place: Path, variables: dict[str, str], umask: int) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(place / "dist")]
    env = {name: value for name, value in os.environ.items() if name not in _SECRETS} | variables
    done = subprocess.run(command, cwd=place, env=env, umask=umask, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"the packages were not built:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
