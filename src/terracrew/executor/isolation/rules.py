"""What an engine, and everything that its module runs, may reach on this machine. The kernel enforces it, see `landlock`.

Everything else is denied: the runner's and the server's own files, other attempts, home directories. `docs/security.md` has
the same lists for operators.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.isolation import landlock, mounts
from terracrew.executor.isolation.landlock import EVERYTHING, READ, READ_AND_EXECUTE, PathRule, Ruleset, Surroundings
from terracrew.executor.isolation.mounts import EngineMounts
from terracrew.executor.sources import workspace
from terracrew.protocol.start import ExecutorStart
from terracrew.toolchains import cache

CREDENTIALS_IN_HOME = (
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/git",
    ".config/helm",
    ".docker",
    ".git-credentials",
    ".gitconfig",
    ".kube",
    ".local/bin",
    ".local/share/helm",
    ".netrc",
    ".oci",
    ".ssh",
    ".vault-token",
    ".asdf",
    ".cargo/bin",
    ".local/share/mise",
    ".nvm",
    ".volta",
)
"""What a module authenticates with, and version switchers of programming languages. Engines name their own paths."""
SERVICE_ACCOUNT_TOKENS = (
    "/var/run/secrets/kubernetes.io",
    "/var/run/secrets/eks.amazonaws.com",
    "/var/run/secrets/azure/tokens",
)
READ_WRITE_DEVICES = tuple(f"/dev/{name}" for name in ("full", "null", "random", "urandom", "zero"))
"""Terminals and shared memory belong to the user, not to the attempt, so they are not among them."""
VARIABLES_WITH_PATHS = (
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "AZURE_FEDERATED_TOKEN_FILE",
    "CLOUDSDK_CONFIG",
    "CURL_CA_BUNDLE",
    "DOCKER_CONFIG",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSL_CAINFO",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "KUBE_CONFIG_PATH",
    "KUBE_CONFIG_PATHS",
    "NODE_EXTRA_CA_CERTS",
    "OCI_CONFIG_FILE",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
"""Variables of the runner's own environment. A module's environment opens nothing."""
_DENIED = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)
_HINT = (
    "The engine and what it runs are isolated (Landlock). Where a permission was denied to something that this module needs, "
    "the runner's settings executor.read_paths and executor.write_paths allow more"
)


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


class EnginePaths(Protocol):
    """What an engine adds to the rules; the session of every engine has it (`executor/engines/contract.py`)."""

    @property
    def readable_paths(self) -> Sequence[Path]: ...

    @property
    def operator_paths(self) -> Sequence[str]: ...


class Isolation:
    """The isolation of one attempt. The rules are made when its first engine starts, and apply to all of its engines."""

    def __init__(self, start: ExecutorStart, files: EngineDirectory) -> None:
        self._start, self._files = start, files
        self._is_on = start.isolation.mode == "landlock" and landlock.abi() > 0
        self._ruleset: Ruleset | None = None

    @property
    def has_view(self) -> bool:
        """Whether engines have a view of their own of the file system, in which their users reach their files."""
        return self._is_on and self._start.isolation.has_view

    def ruleset(self, program: str, engine: EnginePaths) -> Ruleset | None:
        """Return the rules that the engine is restricted to; None if it is not isolated."""
        if self._is_on and self._ruleset is None:
            private = [os.path.realpath(path) for path in self._start.isolation.private_paths]
            ruleset = system_ruleset(private)
            try:
                for rule in self._rules(program, engine, private):
                    ruleset.add(rule)
                if self.has_view:
                    view = mounts.plan(private, ruleset.paths, self._start.engine_account)
                    ruleset.enter_view = partial(_enter, view, ruleset)
            except BaseException:
                ruleset.close()
                raise
            self._ruleset = ruleset
        return self._ruleset

    def hint(self, printed: str) -> str:
        """Return the hint for a person whose engine failed after it printed this; '' if isolation was not the reason."""
        return _HINT if self._ruleset and _DENIED.search(printed) else ""

    def _rules(self, program: str, engine: EnginePaths, private: Sequence[str]) -> Iterator[PathRule]:
        """Yield what is added to the rules for the system's paths."""
        settings, start = self._start.isolation, self._start
        place = workspace.of(Path(start.directory))
        for path in (place, self._files.produced, *settings.write_paths, *READ_WRITE_DEVICES):
            yield PathRule(str(path), EVERYTHING)
        for path in ("/proc", "/sys", self._files.provided):
            yield PathRule(str(path), READ)
        programs = (program, os.path.realpath(program), cache.root() / "engines", *start.engine_paths)
        for path in (*programs, *engine.readable_paths, *settings.read_paths):
            yield PathRule(str(path), READ_AND_EXECUTE)
        surroundings = Surroundings([*private, *secret_paths()])
        operators = (*SERVICE_ACCOUNT_TOKENS, *of_environment(start.environment), *engine.operator_paths)
        for part in surroundings.parts_of(operators):
            yield PathRule(part, READ_AND_EXECUTE)


def _enter(view: EngineMounts, ruleset: Ruleset) -> None:
    view.enter()
    ruleset.add(PathRule(mounts.SHARED_MEMORY, EVERYTHING))  # it is the engine's own there


def of_environment(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield what the runner's own environment points to: programs, credentials and certificates."""
    for folder in _absolute(environment.get("PATH", "").split(os.pathsep)):
        # The shims of a version switcher run programs that are beside their directory.
        yield os.path.dirname(folder) if os.path.basename(folder) == "shims" else folder
    for name in VARIABLES_WITH_PATHS:
        yield from _absolute(environment.get(name, "").split(os.pathsep))
    home = environment.get("HOME", "")
    if os.path.isabs(home):
        yield from (os.path.join(home, name) for name in CREDENTIALS_IN_HOME)


def _absolute(paths: Sequence[str]) -> Iterator[str]:
    return (path for path in paths if os.path.isabs(path))


def system_ruleset(private: Sequence[str]) -> Ruleset:
    """Return a new ruleset that allows the system's paths without the secret ones and without these private ones."""
    surroundings = Surroundings([*private, *secret_paths()])
    roots = (*SYSTEM_PATHS, sys.prefix, sys.base_prefix)
    return Ruleset(PathRule(part, READ_AND_EXECUTE) for part in surroundings.parts_of(roots))


def secret_paths() -> list[str]:
    return [path for path in SECRET_SYSTEM_PATHS if os.access(path, os.R_OK)]
