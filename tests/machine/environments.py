"""An environment with a wheel of Terracrew in it, as people make one with pip, without any network.

Its packages besides Terracrew are those of the environment that runs the tests.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import installer
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile


def make(folder: Path, wheel: Path) -> Path:
    """Return the program `terracrew` of a new environment that has this wheel."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A path file in `site` adds this folder to the end of sys.path; the path files in that folder are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    places = {
        "purelib": str(site),
        "platlib": str(site),
        "scripts": str(folder / "bin"),
        "data": str(folder),
        "headers": str(folder),
    }
    with WheelFile.open(wheel) as source:
        installer.install(source, SchemeDictionaryDestination(places, str(python), "posix"), {"INSTALLER": b"tests"})
    return folder / "bin" / "terracrew"
