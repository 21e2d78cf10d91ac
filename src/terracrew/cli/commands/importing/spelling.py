"""Spells names of other products as names of the tree, always in the same way, and finds those that become the same."""

import re
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from terracrew.cli.commands.importing.model import ImportedModule
from terracrew.errors import Invalid
from terracrew.protocol import limits

LABEL = "imported-from"
MAX_LABEL_CHARACTERS = 255
_NAME = re.compile(limits.PATH_NAME)
_OTHER = re.compile(r"[^a-z0-9]+")
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9 _./:=+@-]")


def name(text: str) -> str:
    """Return a name of the tree for any text: lowercase letters, digits and single hyphens. Raises Invalid if nothing is left."""
    found = _OTHER.sub("-", text.lower()).strip("-")
    found = found[: limits.MAX_PATH_NAME_CHARACTERS].rstrip("-")
    if not _NAME.fullmatch(found):
        raise Invalid(f"{text[:100]!r} has no letter or digit that a path can have: give it another name at its source")
    return found


def path(*parts: str) -> str:
    """Return the path whose names are these texts, without those that are empty."""
    return "/".join(name(each) for each in parts if each)


def group(text: str, default: str) -> str:
    """Return the path of the group that `--into` names. `/` is the organization; without the option, it is the default.

    Raises Invalid if no group can have this path.
    """
    if text == "/":
        return ""
    found = text.strip("/") if text else path(default)
    if not all(_NAME.fullmatch(each) for each in found.split("/")):
        raise Invalid(
            f"--into: {text[:100]!r} is not the path of a group: its names have lowercase letters, digits and hyphens, as in `live/shop`"
        )
    return found


def join(parent: str, *parts: str) -> str:
    below = path(*parts)
    return f"{parent}/{below}" if parent and below else parent or below


def label(origin: str) -> str:
    """Return the label that says where a module comes from."""
    return f"{LABEL}={_NOT_IN_LABELS.sub('-', origin)}"[:MAX_LABEL_CHARACTERS]


def is_of_import(label: str) -> bool:
    """Return whether a label says where a module comes from."""
    return label.startswith(f"{LABEL}=")


def is_label(text: str) -> bool:
    """Return whether a module can have this label."""
    return (
        0 < len(text) <= MAX_LABEL_CHARACTERS
        and text[0].isascii()
        and text[0].isalnum()
        and not _NOT_IN_LABELS.search(text)
    )


def without_collisions(modules: Iterable[ImportedModule], groups: Iterable[str]) -> tuple[ImportedModule, ...]:
    """Return the modules. Each of those that cannot have their paths, because others have them, says so and is not made."""
    found = list(modules)
    by_path: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        by_path[each.path].append(each.origin)
    taken = set(groups)
    for each in found:
        parent = each.path.rpartition("/")[0]
        while parent:
            taken.add(parent)
            parent = parent.rpartition("/")[0]
    return tuple(_checked(each, by_path[each.path], taken) for each in found)


def _checked(module: ImportedModule, origins: list[str], groups: set[str]) -> ImportedModule:
    if module.problem:
        return module
    if len(origins) > 1:
        others = ", ".join(sorted(origins)[:10])
        return msgspec.structs.replace(
            module, problem=f"{others} would all become {module.path}: give them different names at their source"
        )
    if module.path in groups:
        return msgspec.structs.replace(module, problem=f"{module.path} is the path of a group, too")
    if len(module.path.split("/")) > limits.MAX_PATH_LEVELS:
        return msgspec.structs.replace(
            module, problem=f"{module.path} is more than {limits.MAX_PATH_LEVELS} levels deep"
        )
    return module
