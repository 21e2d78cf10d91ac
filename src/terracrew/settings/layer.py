"""A layer of settings: values, and where they are."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from terracrew.settings.trees import Path, Tree


class Layer(NamedTuple):
    place: str
    """Where the values are, in words: `command line`, `environment` or the path of a file."""
    values: Tree
    places: Mapping[Path, str] = {}
    """Where single values are: `environment TERRACREW_URL`, `option --capacity`, a line of the file."""
    problems: Sequence[str] = ()
    """What is wrong with the layer itself."""
    unread: Collection[Path] = ()
    """What could not be read: the paths of sections, or the empty path for the whole layer. What is missing elsewhere may be
    there."""
    is_external: bool = False
    """Whether the values come from vaults. No message repeats them, whatever setting they belong to."""

    def place_of(self, path: Sequence[str]) -> str:
        """Return the place of a value, or of the section that contains it, or of something that it contains."""
        wanted = tuple(path)
        for end in range(len(wanted), 0, -1):
            if wanted[:end] in self.places:
                return self.places[wanted[:end]]
        return next((place for other, place in self.places.items() if other[: len(wanted)] == wanted), self.place)
