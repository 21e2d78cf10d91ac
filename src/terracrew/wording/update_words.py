"""Why a runner is updated by hand, and the exact command for its machine, the same on pages and in a terminal.

What a runner says about its installation is not trusted: a person copies the command into a shell, maybe with more rights than the
runner has. So only texts of a strict form get into it, and each is quoted. Otherwise the command is the general one, without them.
"""

import re
import shlex

import msgspec

from terracrew.protocol.messages import Installation
from terracrew.source_rules.version_ranges import parse_version

_DIRECTORY = re.compile(
    r"(?:/[A-Za-z0-9_+@][A-Za-z0-9._+@-]{0,99}|/\.[A-Za-z0-9_][A-Za-z0-9._+@-]{0,98}){1,20}", re.ASCII
)
"""An absolute path without `.` and `..`."""
_WRITABLE_BY_ALL = ("/tmp/", "/var/tmp/", "/dev/", "/proc/", "/run/")  # noqa: S108 (they are refused)
"""Where everybody can put a program. A command never runs one from there."""
_UNIT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9:_.@-]{0,100}\.service", re.ASCII)
_KUBERNETES_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_IMAGE = re.compile(
    r"((?:[a-z0-9](?:[a-z0-9.-]{0,100}[a-z0-9])?(?::[0-9]{1,5})?/)?[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*){0,10})"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_MAX_IMAGE_CHARACTERS = 300
_OFF = "it does not update itself: its setting `runner.self_update` is off"


class ByHand(msgspec.Struct, frozen=True):
    """How a person updates a runner that the server cannot update."""

    reason: str
    """Why the server cannot, and what else the person does."""
    command: str = ""
    """What to run on the machine of the runner; empty if no command updates it."""


def by_hand(installation: Installation, version: str, image: str = "") -> ByHand:
    """Return how a runner that does not update itself gets this version. `image` is the release's own image of runners, if it has one."""
    match installation.kind:
        case "server":
            return ByHand("it is part of the server and is updated with it")
        case "source":
            return ByHand("it runs from a checkout of the sources: update that, and start it again")
        case "container":
            return ByHand(
                "its program is part of its container's image: pull the new image, and start its container again from that",
                f"docker pull {shlex.quote(_new_image(installation.place, version, image))}",
            )
        case "helm":
            return ByHand(
                "its program is part of the image that its Helm release names: upgrade that release",
                _helm(installation, version),
            )
        case "pipx":
            return _with_package(f"pipx install --force {_requirement(version)}", version)
        case "uv":
            return _with_package(f"uv tool install --force {_requirement(version)}", version)
        case "systemd" if _UNIT.fullmatch(installation.detail):
            command = f"{_pip(installation.place, version)} && systemctl restart {shlex.quote(installation.detail)}"
            return ByHand(_OFF, command) if _requirement(version) else _with_package("", version)
        case "pip" | "systemd":
            return _with_package(_pip(installation.place, version), version)
        case _:
            return ByHand(
                "it does not say how it was installed: install the new version in the same way as the old one"
            )


def _with_package(command: str, version: str) -> ByHand:
    """Return a command that installs a package of Python, which does not restart the runner."""
    if not _requirement(version):
        return ByHand(f"{_OFF}. Install {version} in the same way as the old one, and start it again")
    return ByHand(f"{_OFF}. Start it again after this command", command)


def _requirement(version: str) -> str:
    """Return the requirement of this version as pip reads it, or an empty text if packages of Python cannot have it."""
    parsed = parse_version(version)
    form = parsed.python_form if parsed else None
    return "" if form is None else f"'terracrew=={form}'"


def _pip(place: str, version: str) -> str:
    is_usable = _DIRECTORY.fullmatch(place) and not f"{place}/".startswith(_WRITABLE_BY_ALL)
    python = shlex.quote(f"{place}/bin/python") if is_usable else "python"
    return f"{python} -m pip install --upgrade {_requirement(version)}"


def _new_image(place: str, version: str, image: str) -> str:
    """Return the release's own image, or the one of the container with another tag."""
    if image:
        return image
    found = _IMAGE.fullmatch(place) if len(place) <= _MAX_IMAGE_CHARACTERS else None
    return f"{found[1] if found else 'terracrew-runner'}:{version.partition('+')[0]}"


def _helm(installation: Installation, version: str) -> str:
    name, namespace = (
        text if _KUBERNETES_NAME.fullmatch(text) else default
        for text, default in ((installation.place, "RELEASE"), (installation.detail, "NAMESPACE"))
    )
    return (
        f"helm upgrade {name} deploy/helm/terracrew-runner --namespace {namespace} --reuse-values "
        f"--set image.tag={shlex.quote(version.partition('+')[0])}"
    )
