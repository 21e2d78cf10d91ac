"""Tells which files make a folder the configuration of an engine.

An engine that runs in a folder without any of them takes that for a configuration without resources, and plans to destroy
everything in the state. So such a folder is refused, by the server when it gets a source and by the executor before it starts
the engine.
"""

import posixpath
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

PATTERNS: dict[str, tuple[str, ...]] = {
    "tofu": ("*.tf", "*.tf.json", "*.tofu", "*.tofu.json"),
    "terraform": ("*.tf", "*.tf.json"),
    "pulumi": ("Pulumi.yaml", "Pulumi.yml", "Pulumi.json"),
}
"""The engines that a server knows. What an engine of another package reads is known only to the executor that runs it."""
MAX_FILES = 1_000
"""The configuration files of a larger source are not remembered."""


def is_match(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a file of this name is a configuration file of an engine with these patterns."""
    # A name that starts with a dot, or that an editor made as a backup, is skipped by the engines.
    if name.startswith(".") or name.endswith("~"):
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def files(paths: Iterable[str]) -> list[str] | None:
    """Return the configuration files among the paths of a source, or None if there are too many.

    One file for each folder and set of engines is enough to answer `has_configuration` for every known engine.
    """
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for path in paths:
        folder, name = posixpath.split(path)
        if engines := tuple(engine for engine, patterns in PATTERNS.items() if is_match(name, patterns)):
            found.setdefault((folder, engines), path)
        if len(found) > MAX_FILES:
            return None
    return sorted(found.values())


def has_configuration(paths: Iterable[str], subdirectory: str, engine: str) -> bool:
    """Return whether one of these files is the engine's configuration, directly in this folder of the source.

    `paths` has only files of known engines, so the answer is True for every other engine.
    """
    patterns = PATTERNS.get(engine)
    return patterns is None or any(
        folder == subdirectory and is_match(name, patterns) for folder, name in map(posixpath.split, paths)
    )


def missing(subdirectory: str, engine: str, patterns: Sequence[str]) -> str:
    """Return the message for a folder without a configuration."""
    place = f"its folder {subdirectory!r}" if subdirectory else "its top folder"
    wanted = " or ".join(patterns[:2])
    return (
        f"the source has no configuration of {engine} (no {wanted} file) in {place}. The engine would take that for a "
        "configuration without resources and destroy everything that exists. Give the folder that has the configuration; "
        "to destroy everything, keep the source and run a DESTROY"
    )
