"""Tells which files make a folder the configuration of an engine.

An engine that runs in a folder without any of them takes that for a configuration without resources, and plans to destroy
everything in the state. So such a folder is refused, by the server when it gets a source and by the executor before it starts
the engine.
"""

import posixpath
from collections.abc import Iterable
from fnmatch import fnmatchcase

_PATTERNS: dict[str, tuple[str, ...]] = {
    "tofu": ("*.tf", "*.tf.json", "*.tofu", "*.tofu.json"),
    "terraform": ("*.tf", "*.tf.json"),
    "pulumi": ("Pulumi.yaml", "Pulumi.yml", "Pulumi.json"),
}
MAX_FILES = 1_000
"""The configuration files of a larger source are not remembered."""


def is_configuration(name: str, engine: str) -> bool:
    """Return whether an engine reads a file of this name as its configuration. An unknown engine reads every file."""
    # A name that starts with a dot, or that an editor made as a backup, is skipped by the engines.
    if name.startswith(".") or name.endswith("~"):
        return False
    return any(fnmatchcase(name, pattern) for pattern in _PATTERNS.get(engine, ("*",)))


def files(paths: Iterable[str]) -> list[str] | None:
    """Return the configuration files among the paths of a source, or None if there are too many.

    One file for each folder and set of engines is enough to answer `has_configuration` for every engine.
    """
    found: dict[tuple[str, tuple[str, ...]], str] = {}
    for path in paths:
        folder, name = posixpath.split(path)
        if engines := tuple(engine for engine in _PATTERNS if is_configuration(name, engine)):
            found.setdefault((folder, engines), path)
        if len(found) > MAX_FILES:
            return None
    return sorted(found.values())


def has_configuration(paths: Iterable[str], subdirectory: str, engine: str) -> bool:
    """Return whether one of these files is the engine's configuration, directly in this folder of the source."""
    return any(
        folder == subdirectory and is_configuration(name, engine) for folder, name in map(posixpath.split, paths)
    )


def missing(subdirectory: str, engine: str) -> str:
    """Return the message for a folder without a configuration."""
    place = f"its folder {subdirectory!r}" if subdirectory else "its top folder"
    wanted = " or ".join(_PATTERNS.get(engine, ("configuration",))[:2])
    return (
        f"the source has no configuration of {engine} (no {wanted} file) in {place}. The engine would take that for a "
        "configuration without resources and destroy everything that exists. Give the folder that has the configuration; "
        "to destroy everything, keep the source and run a DESTROY"
    )
