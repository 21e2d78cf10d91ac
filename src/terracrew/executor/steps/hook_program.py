"""How a hook is started: its script in a file of its own, its program, and an environment that a module cannot use against an approval."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from terracrew.errors import Invalid, NotFound
from terracrew.protocol.hooks import Hook

LOADING_VARIABLES = frozenset(
    (
        "BASH_ENV",
        "CDPATH",
        "ENV",
        "GLOBIGNORE",
        "IFS",
        "LD_AUDIT",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "PS4",
        "PYTHONHOME",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "RUBYLIB",
        "RUBYOPT",
        "SHELLOPTS",
    )
)
"""Variables that make a shell, another interpreter or the loader run code from elsewhere."""
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
    """Return an approved command with its program as the runner finds it: a module could set another PATH."""
    program = hook.command[0]
    if "/" in program:
        return hook.command
    found = shutil.which(program, path=runner.get("PATH"))
    if found is None:
        raise NotFound(f"the runner has no program {program!r} on its PATH")
    return [found, *hook.command[1:]]


def approved_environment(job: Mapping[str, str], runner: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an approved hook: the variables that load code are those of the runner, not of the module."""
    kept = {name: text for name, text in job.items() if not _is_loading(name)}
    return kept | {name: text for name, text in runner.items() if _is_loading(name)}


def _is_loading(name: str) -> bool:
    return name in LOADING_VARIABLES or name.startswith("BASH_FUNC_")
