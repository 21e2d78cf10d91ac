"""Makes the path of a module from its folder by the template of a rule. Nothing that a repository contains leads out of the group."""

import re

from terracrew.errors import Invalid
from terracrew.server.tree.groups import tree_path as paths

PLACEHOLDERS = ("{path}", "{flat}", "{dir}")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_TO_HYPHEN = re.compile(r"[_. ]")


def template_problem(template: str) -> str:
    """Return what is wrong with a template, in words; empty if nothing is."""
    found = _PLACEHOLDER.findall(template)
    if unknown := [each for each in found if each not in PLACEHOLDERS]:
        return f"{unknown[0][:50]} is not known: there are {', '.join(PLACEHOLDERS)}"
    if not found:
        return f"it has none of {', '.join(PLACEHOLDERS)}, so that all modules would have the same path"
    try:
        paths.parse(_filled(template, "a", "a"))
    except Invalid as error:
        return error.message
    return ""


def module_path(template: str, group: str, folder: str, repository: str) -> str:
    """Return the path of the module of a folder, or raise Invalid if its name cannot be one.

    Upper case becomes lower case, and `_`, `.` and spaces become hyphens. The top of the repository is called like the repository.
    """
    named = folder or repository.rsplit("/", 1)[-1]
    parts = [_slug(each) for each in named.split("/")]
    below = paths.parse(_filled(template, "/".join(parts), parts[-1]))
    return paths.parse(f"{group}/{below}" if group else below)


def _filled(template: str, path: str, name: str) -> str:
    values = {"{path}": path, "{flat}": path.replace("/", "-"), "{dir}": name}
    return _PLACEHOLDER.sub(lambda match: values[match[0]], template)


def _slug(name: str) -> str:
    if name in (".", ".."):
        return name
    return _TO_HYPHEN.sub("-", name.lower()).strip("-")
