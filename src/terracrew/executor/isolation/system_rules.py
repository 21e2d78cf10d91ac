"""The rules for programs, libraries and the configuration of the machine, which are the same for every attempt."""

import os
import sys
from collections.abc import Sequence

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


def ruleset(private: Sequence[str]) -> Ruleset:
    """Return a new ruleset that allows the system's paths without the secret ones and without these private ones."""
    surroundings = Surroundings([*private, *secret_paths()])
    roots = dict.fromkeys(map(landlock.resolved, (*SYSTEM_PATHS, sys.prefix, sys.base_prefix)))
    return Ruleset(
        PathRule(part, READ_AND_EXECUTE)
        for root in roots
        if root not in (None, "/")
        for part in surroundings.parts(root)
    )


def secret_paths() -> list[str]:
    return [path for path in SECRET_SYSTEM_PATHS if os.access(path, os.R_OK)]
