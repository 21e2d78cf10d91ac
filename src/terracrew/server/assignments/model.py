"""An assignment of a runner to a place of the tree."""

from datetime import datetime
from typing import Literal

import msgspec

PlaceKind = Literal["group", "module"]


class Assignment(msgspec.Struct, frozen=True):
    """A place of the tree whose modules may use the runner."""

    runner_id: str
    place_id: str
    kind: PlaceKind
    path: str
    created_at: datetime
