"""The rules for programs, libraries and the configuration of the machine, which are the same for every attempt. They are most of
the rules if there are secrets among them, so an executor that waits for its job makes them ahead (ADR 0064)."""

import contextlib
import os
import sys
import time
from collections.abc import Sequence

import msgspec

from terracrew.executor.isolation import landlock
from terracrew.executor.isolation.landlock import READ_AND_EXECUTE, PathRule, Ruleset, Surroundings

SYSTEM_PATHS = (
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/sbin",
    "/snap",
    "/usr",
    "/home/linuxbrew",
    "/run/current-system",
    "/run/wrappers",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager/resolv.conf",
    "/var/lib/ca-certificates",
)
"""Programs, libraries and the configuration of the machine."""
SECRET_SYSTEM_PATHS = (
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/kubernetes",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/terracrew",
    "/etc/wireguard",
)
"""Paths that are left out of the system's paths, if this user could read them."""
_CLOCK_TICK_SECONDS = 0.02
"""A directory that changed so shortly before it was listed may have changed again without another time of its change."""


class _PreparedRules(msgspec.Struct, frozen=True):
    """A ruleset, and what it was made from."""

    ruleset: Ruleset
    roots: dict[str, tuple[int, int]]
    secrets: list[str]
    listed: dict[str, int]
    """The directories whose entries have rules of their own, with the times of their last change."""
    listed_at_ns: int


_prepared: _PreparedRules | None = None


def prepare() -> None:
    """Make the rules ahead of time. A process that was started for a job does not call this."""
    global _prepared
    if landlock.abi() > 0:
        _prepared = _make([])


def ruleset(private: Sequence[str]) -> Ruleset:
    """Return a new ruleset that allows the system's paths without the secret ones and without these private ones."""
    global _prepared
    found, _prepared = _prepared, None
    if found is not None:
        if _is_current(found, private):
            return found.ruleset
        found.ruleset.close()
    return _make(private).ruleset


def secret_paths() -> list[str]:
    return [path for path in SECRET_SYSTEM_PATHS if os.access(path, os.R_OK)]


def _make(private: Sequence[str]) -> _PreparedRules:
    roots, secrets, listed_at_ns = _roots(), secret_paths(), time.time_ns()
    surroundings = Surroundings([*private, *secrets])
    made = Ruleset(PathRule(part, READ_AND_EXECUTE) for root in roots for part in surroundings.parts(root))
    return _PreparedRules(made, roots, secrets, surroundings.listed, listed_at_ns)


def _is_current(prepared: _PreparedRules, private: Sequence[str]) -> bool:
    """Whether making the rules now would give the same ones. A file that was replaced since is not the one that has the rule."""
    return (
        not any(_overlap(path, root) for path in private for root in prepared.roots)
        and all(
            _changed_ns(path) == at < prepared.listed_at_ns - _CLOCK_TICK_SECONDS * 1e9
            for path, at in prepared.listed.items()
        )
        and prepared.secrets == secret_paths()
        and prepared.roots == _roots()
    )


def _roots() -> dict[str, tuple[int, int]]:
    """Return the system's paths that exist, without links, and which directories they are."""
    found: dict[str, tuple[int, int]] = {}
    for path in map(landlock.resolved, (*SYSTEM_PATHS, sys.prefix, sys.base_prefix)):
        if path not in (None, "/"):
            with contextlib.suppress(OSError):  # it has just been removed
                about = os.stat(path)
                found[path] = about.st_dev, about.st_ino
    return found


def _changed_ns(path: str) -> int | None:
    """Return the time that only the kernel sets: `rsync` and others set the time of modification to an earlier one."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError:
        return None


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
