"""The files that an attempt's engine has beside its workspace. The executor's own files are in the attempt's directory.

<engine directory>/
  provided/    written by the executor, read by the engine: its configuration, tokens for clouds, the plan that is applied;
               read by hooks: this plan, and the same as JSON
  produced/    written by the engine: a new plan, the facts about it

An engine runs code that somebody else wrote. What it produced is therefore opened without following links, and without waiting
for a pipe, which nobody may ever write to.
"""

import os
import stat
from io import BufferedReader
from pathlib import Path

from terracrew.errors import Invalid, TooLarge

PLAN = "plan"
_JSON_SUFFIX = ".json"
_PROVIDED, _PRODUCED = "provided", "produced"


class EngineDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.provided, self.produced = path / _PROVIDED, path / _PRODUCED

    @property
    def new_plan(self) -> Path:
        """Where the engine writes a plan. When its command has ended, the executor takes the plan from here."""
        return self.produced / PLAN

    @property
    def plan(self) -> Path:
        """The plan that is described, saved and applied. The engine, and what runs beside it, can only read it."""
        return self.provided / PLAN

    @property
    def plan_json(self) -> Path:
        """The same plan as JSON without sensitive values. It exists only if a hook reads it."""
        return json_beside(self.plan)

    def make(self) -> None:
        for folder in (self.path, self.provided, self.produced):
            folder.mkdir(mode=0o700, exist_ok=True)


def json_beside(plan: Path) -> Path:
    """Return the path of the JSON of a plan. Programs that check plans know JSON by the end of its name."""
    return plan.with_suffix(_JSON_SUFFIX)


def read_produced(path: Path, max_bytes: int, *, follows_link: bool = False) -> bytes:
    """Return the content of a file that an engine wrote. Raises Invalid where the engine put something else in its place, and TooLarge
    for a file with more bytes: one with holes takes no space on the disk, but would take it in the memory of the executor."""
    with open_produced(path, follows_link=follows_link) as file:
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    raise TooLarge(f"the engine's file {path.name} has more than {max_bytes:,} bytes, so it is not read")


def open_produced(path: Path, *, follows_link: bool = False) -> BufferedReader:
    """Open a file for reading that an engine wrote, or could have written. `follows_link` is for files of people, who may keep
    them elsewhere. Raises Invalid for anything that is not a regular file."""
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follows_link else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        raise Invalid(f"the engine's file {path.name} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Invalid(f"the engine's file {path.name} is not a regular file")
    return open(descriptor, "rb")
