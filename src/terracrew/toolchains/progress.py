"""The current progress of an installation, to be shown to a person."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Stage = Literal["note", "wait", "download", "go", "modules", "build", "ready"]


class InstallProgress(Struct, frozen=True):
    """A stage, what it is busy with, and how far it is: bytes of a download, else pieces; no total, no known end.

    A `note` is a line worth keeping. Stages repeat their last report at least every second while they are alive.
    """

    stage: Stage
    text: str
    done: int = 0
    total: int | None = None


Report = Callable[[InstallProgress], None]
