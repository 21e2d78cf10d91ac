"""What may be reached on this machine while a source is fetched. The kernel enforces it, see `landlock`.

Archives and repositories are made by others, and what unpacks or fetches them is more than ours: git, ssh, and the credential helpers that
the configuration of the runner's user names. They change nothing but the workspace and the mirrors, and read nothing that the runner or
its server keep. `docs/security.md` has the same lists for operators.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from terracrew.executor.isolation import landlock, rules
from terracrew.executor.isolation.landlock import (
    EVERYTHING,
    READ,
    READ_AND_EXECUTE,
    Access,
    PathRule,
    Ruleset,
    Surroundings,
)
from terracrew.protocol.start import IsolationSettings

T = TypeVar("T")
_HANDLE = READ | Access.WRITE_FILE | Access.MAKE_DIR | Access.MAKE_REG | Access.MAKE_SYM


class SourceConfinement:
    """The `Confinement` of an attempt that fetches a source or restores a saved plan. Without Landlock, nothing is confined."""

    def __init__(self, settings: IsolationSettings, environment: Mapping[str, str]) -> None:
        """The environment is the runner's own. That of a module opens nothing."""
        self._settings, self._environment = settings, environment
        self._is_on = settings.mode == "landlock" and landlock.abi() > 0
        self._program: tuple[tuple[str, ...], Ruleset] | None = None
        """The rules for programs, and the paths that they were made for."""

    def within(self, work: Callable[[], T], *folders: Path) -> T:
        """Call a function in a thread that can open nothing but what is in these folders. It must not have to import anything."""
        if not self._is_on:
            return work()
        ruleset = Ruleset(PathRule(str(folder), _HANDLE) for folder in folders)
        try:
            return ruleset.run(work)
        finally:
            ruleset.close()

    def start(self, begin: Callable[[], T], *, writable: Sequence[Path], readable: Sequence[str]) -> T:
        """Call a function that starts a program, which may change these folders, and read these paths beside those of the machine."""
        if not self._is_on:
            return begin()
        wanted = (*map(str, writable), "", *readable)
        if self._program is None or self._program[0] != wanted:
            self.close()
            self._program = wanted, self._make(writable, readable)
        return self._program[1].run(begin)

    def close(self) -> None:
        if self._program is not None:
            self._program[1].close()
        self._program = None

    def _make(self, writable: Sequence[Path], readable: Sequence[str]) -> Ruleset:
        private = [os.path.realpath(path) for path in self._settings.private_paths]
        ruleset = rules.system_ruleset(private)
        try:
            for rule in self._rules(writable, readable, private):
                ruleset.add(rule)
        except BaseException:
            ruleset.close()
            raise
        return ruleset

    def _rules(self, writable: Sequence[Path], readable: Sequence[str], private: Sequence[str]) -> Iterator[PathRule]:
        settings = self._settings
        for path in (*writable, *settings.write_paths, *rules.READ_WRITE_DEVICES):
            yield PathRule(str(path), EVERYTHING)
        for path in ("/proc", "/sys"):
            yield PathRule(path, READ)
        for path in settings.read_paths:
            yield PathRule(path, READ_AND_EXECUTE)
        surroundings = Surroundings([*private, *rules.secret_paths()])
        operators = (*rules.of_environment(self._environment), *readable)
        for part in surroundings.parts_of(operators):
            yield PathRule(part, READ_AND_EXECUTE)
