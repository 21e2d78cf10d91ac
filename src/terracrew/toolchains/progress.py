"""The current progress of an installation, to be shown to a person."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Stage = Literal["note", "wait", "download", "go", "modules", "build", "ready"]


class InstallProgress(Struct, frozen=True):
    """A stage, what it is doing, and how far it is. `done` and `total` count the bytes of a download, or the pieces of other work.

    `total` is None if it is unknown. A `note` is a line that stays visible. While it works, a stage repeats its last report at
    least every second.
    """

    stage: Stage
    text: str
    done: int = 0
    total: int | None = None


Report = Callable[[InstallProgress], None]
