"""Nested settings: `{"runner": {"capacity": 4}}` has the path `("runner", "capacity")`, whose name is `runner.capacity`."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

Tree = dict[str, Any]
Path = tuple[str, ...]


def find(tree: Tree, path: Sequence[str]) -> Any:
    """Return the value at a path, or None if there is none."""
    found: Any = tree
    for part in path:
        if not isinstance(found, dict) or part not in found:
            return None
        found = cast("Tree", found)[part]
    return found


def put(tree: Tree, path: Sequence[str], value: Any) -> None:
    """Set the value at a path. A value that is not a section is replaced by one if the path leads through it."""
    for part in path[:-1]:
        below = tree.get(part)
        if not isinstance(below, dict):
            below = tree[part] = {}
        tree = cast("Tree", below)
    tree[path[-1]] = value


def merge(below: Tree, above: Tree) -> Tree:
    """Return both trees as one; where both have a value, `above` wins."""
    merged = dict(below)
    for name, value in above.items():
        other = merged.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            merged[name] = merge(cast("Tree", other), cast("Tree", value))
        else:
            merged[name] = value
    return merged


def leaves(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value that is not a section, with its path. An empty section is a value, too."""
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from leaves(cast("Tree", value), (*path, name))
        else:
            yield (*path, name), value


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
