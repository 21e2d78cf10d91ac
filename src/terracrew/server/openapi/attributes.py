"""Reads the docstrings below the fields of a struct, for the description of the API."""

import ast
import inspect
import textwrap
from functools import cache
from itertools import pairwise

import msgspec


def of(name: str) -> dict[str, str]:
    """Return the descriptions of a struct's fields by their names; those of its parents are included."""
    return {} if (kind := _structs().get(name)) is None else _described(kind)


@cache
def _structs() -> dict[str, type[msgspec.Struct]]:
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = [msgspec.Struct]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind.__module__.startswith("terracrew."):
                found.setdefault(kind.__name__, kind)
            waiting.append(kind)
    return found


def _described(kind: type[msgspec.Struct]) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("terracrew."):
            found |= _in_source(each)
    return found


def _in_source(kind: type) -> dict[str, str]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):  # the installation has no source files
        return {}
    found: dict[str, str] = {}
    statements = body.body if isinstance(body, ast.ClassDef) else []
    for field, after in pairwise(statements):
        text = after.value if isinstance(after, ast.Expr) else None
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[field.target.id] = inspect.cleandoc(text.value)
    return found
