"""Determines how engines are isolated on this machine, for the runner's log and for its hello to the server."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from terracrew.executor.isolation import landlock, mounts, seccomp
from terracrew.protocol.messages import Isolation
from terracrew.protocol.start import IsolationSettings

log = logging.getLogger(__name__)

_ABI_WITH_SIGNALS = 6


def in_force(settings: IsolationSettings) -> Isolation:
    if settings.mode == "none":
        return "none"
    return "landlock" if landlock.abi() else "unavailable"


def has_view(settings: IsolationSettings) -> bool:
    """Whether each engine has a mount namespace, in which the private directories of this machine are not there."""
    return in_force(settings) == "landlock" and mounts.is_available()


def describe(settings: IsolationSettings, own_directories: Sequence[str], *, has_users: bool = False) -> None:
    """Log, once, what an operator should know about the isolation of engines on this machine."""
    found = in_force(settings)
    if has_users and found != "landlock":
        log.warning(
            "engines are kept from this runner by their users only: executor.isolation is `none`, or unavailable here"
        )
        return
    match found:
        case "none":
            log.warning(
                "executor.isolation is `none`: every module that this runner serves can read the runner's files and credentials"
            )
            return
        case "unavailable":
            log.warning(
                "engines are not isolated: this kernel (%s) has no Landlock, or it is switched off. Every module that this "
                "runner serves can read the runner's files and credentials. Use Linux 6.12 or later with `landlock` in "
                "/sys/kernel/security/lsm, or set executor.isolation to `none` if you accept it",
                os.uname().release,
            )
            return
        case _:
            pass
    parts = {
        f"Landlock {landlock.abi()}": True,
        "a filter of system calls": seccomp.is_available(),
        "mount namespaces": has_view(settings),
        "users of their own": has_users,
    }
    log.info("engines are isolated by %s", ", ".join(name for name, is_on in parts.items() if is_on))
    if landlock.abi() < _ABI_WITH_SIGNALS:
        log.warning(
            "this kernel (%s) has version %d of Landlock: modules can send signals to processes of this user. Linux 6.12 and "
            "later have version 6, which prevents it",
            os.uname().release,
            landlock.abi(),
        )
    if not seccomp.is_available():
        log.warning(
            "this machine (%s) cannot filter system calls (seccomp): modules can limit and slow down other processes of this "
            "user. Use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or 64-bit ARM",
            os.uname().machine,
        )
    for path in (*settings.read_paths, *settings.write_paths):
        if any(Path(own).resolve().is_relative_to(Path(path).resolve()) for own in own_directories):
            log.warning(
                "executor.read_paths or executor.write_paths has %s, which holds this runner's own files: modules can read its "
                "credentials",
                path,
            )
