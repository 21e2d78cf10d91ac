"""A note of what an attempt's engine had to download, so that the runner can download it for later attempts.

The runner never takes what the attempt itself downloaded: a module could have put anything there.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from terracrew.attempt import files


class MissingDownloads(msgspec.Struct, frozen=True):
    engine: str
    """The name of the engine that can download the items again."""
    items: list[str]
    """What was missing in the runner's shared cache, in the engine's own notation. A module may have chosen the text."""


_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(MissingDownloads).decode


def record(directory: Path, engine: str, items: Sequence[str]) -> None:
    # It is not durable: a crash costs another download, nothing else.
    (directory / files.DOWNLOADS).write_bytes(_encode(MissingDownloads(engine, list(items))))


def read(directory: Path) -> MissingDownloads | None:
    try:
        return _decode((directory / files.DOWNLOADS).read_bytes())
    except (OSError, ValueError):
        return None
