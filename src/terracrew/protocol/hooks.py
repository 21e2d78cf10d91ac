"""Hooks: scripts and commands that a module and its groups run before and after a step."""

import hashlib
from typing import Literal

import msgspec

When = Literal["before", "after"]


class Hook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script, which begins with an interpreter line such as `#!/bin/sh`, or a command as a list of arguments."""

    script: str = ""
    command: list[str] = []

    @property
    def text(self) -> str:
        """What a runner compares with the hooks that its operator has approved: the script, or the arguments as JSON."""
        if self.script:
            return self.script.replace("\r\n", "\n").replace("\r", "\n")
        return msgspec.json.encode(self.command).decode()

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class ApprovedHooks(msgspec.Struct, frozen=True):
    """The only hooks that may run on a runner."""

    directory: str
    """Where the operator of the runner keeps them; empty if no directory is set, so that no hook may run."""
    sha256: list[str] = []
