"""Which functions of the domain a handler refers to: the proof that an operation of the API and a page do the same thing."""

import dis
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

FACES = ("terracrew.server.api.", "terracrew.server.dashboard.")
"""Functions of these packages are followed; what they refer to outside of them is what they do."""
SHARED = (
    "terracrew.server.http.",
    "terracrew.server.paging",
    "terracrew.server.openapi.",
    "terracrew.server.db.",
    "terracrew.server.principals.",
)
"""What every handler uses, whatever it does."""
DOMAIN = "terracrew.server."
OF_EVERY_HANDLER = tuple(
    f"context.{each}"
    for each in ("db", "settings", "keys", "objects", "registry", "rollout_rules", "diffs", "watch", "publishing")
)
"""What handlers use for whatever they do."""


def domain_functions(handler: Callable[..., Any]) -> frozenset[str]:
    """Return what a handler does: the functions of the domain that it refers to, also through others of its face.

    They are named `package.module.function`, and services of the server's context `context.service.function`.
    """
    found: set[str] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [inspect.unwrap(handler)]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        functions, services = _references(function)
        found.update(services)
        for each in functions:
            module = each.__module__ or ""
            if module.startswith(FACES):
                waiting.append(each)
            elif module.startswith(DOMAIN) and not module.startswith(SHARED):
                found.add(f"{module.removeprefix(DOMAIN)}.{each.__qualname__}")
    return frozenset(found)


@cache
def _references(function: Any) -> tuple[list[Any], list[str]]:
    """Return the functions that the code of a function names, directly or as a member of a module, and services of the context."""
    functions: list[Any] = []
    services: list[str] = []
    if isinstance(function, FunctionType):
        for code in _codes(function.__code__):
            _collect(code, function.__globals__, functions, services)
    return functions, services


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _collect(code: CodeType, names: dict[str, Any], functions: list[Any], services: list[str]) -> None:
    value: Any = None
    path = ""
    for step in dis.get_instructions(code):
        is_member = step.opname in ("LOAD_ATTR", "LOAD_METHOD")
        value = (
            names.get(step.argval)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
            else getattr(value, step.argval, None)
            if is_member and isinstance(value, ModuleType)
            else None
        )
        if isinstance(value, FunctionType):
            functions.append(value)
        if path and is_member:
            path = f"{path}.{step.argval}"
            continue
        if path.count(".") and not path.startswith(OF_EVERY_HANDLER):
            services.append(path)
        of_context = step.argval == "context" and (is_member or step.opname.startswith("LOAD_"))
        path = "context" if of_context else ""
