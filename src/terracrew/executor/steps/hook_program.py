"""How a hook is started: its script in a file of its own, and its program."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from terracrew.errors import Invalid, NotFound
from terracrew.protocol.hooks import Hook

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SCRIPT = "hook"


def write_script(folder: Path, hook: Hook) -> list[str]:
    """Write the script of a hook into a new file, and return its command. An interpreter reads the file: the folder may forbid
    execution. What was there before is removed first, because a module may have put a link in its place."""
    path = folder / _SCRIPT
    path.unlink(missing_ok=True)
    with open(os.open(path, _NEW_FILE, 0o600), "w", newline="") as file:
        file.write(hook.text)
    return [*interpreter(hook.text), str(path)]


def interpreter(script: str) -> list[str]:
    """Return the interpreter of a script and its one argument, as the kernel reads them from the first line."""
    line = script.partition("\n")[0]
    words = line.removeprefix("#!").strip().split(None, 1)
    if not line.startswith("#!") or not words or not Path(words[0]).is_absolute():
        raise Invalid(
            "a script of a hook begins with a line such as `#!/bin/sh`, which names its interpreter by an absolute path"
        )
    return words


def approved_command(hook: Hook, runner: Mapping[str, str]) -> list[str]:
    """Return an approved command with its program as the runner finds it: an input could set another PATH."""
    program = hook.command[0]
    if "/" in program:
        return hook.command
    found = shutil.which(program, path=runner.get("PATH"))
    if found is None:
        raise NotFound(f"the runner has no program {program!r} on its PATH")
    return [found, *hook.command[1:]]
