"""Finds out how this runner was installed, from which follows how it is updated.

Our images and charts say so in a variable. Nothing else is taken as a sign of a container: a virtual machine that somebody calls one
can be updated like any other machine.
"""

import os
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import msgspec

from terracrew.protocol.messages import Installation

VARIABLE = "TERRACREW_INSTALLATION"
"""`container IMAGE` or `helm RELEASE NAMESPACE`."""
_PACKAGED_KINDS = ("container", "helm")
_UNIT = re.compile(r"(?!user@)[A-Za-z0-9:_.\\@-]+\.service")
_PLACES = {"/pipx/venvs/": "pipx", "/uv/tools/": "uv"}
"""Parts of the path of an environment that a program for installing programs made."""


class _InstalledFolder(msgspec.Struct, frozen=True):
    editable: bool = False


class _InstallationOrigin(msgspec.Struct, frozen=True):
    """Where a package was installed from: the file `direct_url.json` of PEP 610."""

    url: str = ""
    dir_info: _InstalledFolder = _InstalledFolder()


def find(environment: Mapping[str, str]) -> Installation:
    """Return how the program of this process was installed."""
    kind, place, detail = (environment.get(VARIABLE, "").split(" ") + [""] * 3)[:3]
    if kind in _PACKAGED_KINDS:
        return Installation(kind, place, detail)
    own_unit = unit(environment)
    if (checkout := find_checkout()) is not None:
        return Installation("source", checkout, own_unit)
    if own_unit:
        return Installation("systemd", sys.prefix, own_unit)
    return Installation(next((kind for part, kind in _PLACES.items() if part in f"{sys.prefix}/"), "pip"), sys.prefix)


def why_not_self_updating(installed: Installation) -> str:
    """Say why a program that was installed in this way cannot replace itself; '' if it can."""
    match installed.kind:
        case "server":
            return "it is part of the server's process, and is updated with it"
        case "container" | "helm":
            return (
                "its program is part of the image of its container, and another container would start with the old one"
            )
        case "source":
            return f"it runs from the sources in {installed.place}"
        case _:
            return ""


def unit(environment: Mapping[str, str], cgroups: Path = Path("/proc/self/cgroup")) -> str:
    """Return the unit of systemd whose main process this is, or a child of its main process; '' if there is none."""
    if "INVOCATION_ID" not in environment:
        return ""
    main = environment.get(
        "SYSTEMD_EXEC_PID", ""
    )  # systemd sets it since version 248; processes of the unit inherit it
    if main and main not in (str(os.getpid()), str(os.getppid())):
        return ""
    try:
        lines = cgroups.read_text().splitlines()
    except OSError:
        return ""
    inside = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "")
    return next((part for part in inside.split("/") if _UNIT.fullmatch(part)), "")


def find_checkout() -> str | None:
    """Return the folder with the sources that this program runs from; None if it was installed."""
    try:
        written = metadata.distribution("terracrew").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return str(Path(__file__).parents[3])
    found = msgspec.json.decode(written, type=_InstallationOrigin) if written else _InstallationOrigin()
    return found.url.removeprefix("file://") if found.dir_info.editable else None
