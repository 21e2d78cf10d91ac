"""Which requests the code of a command can make: the proof that a command does what an operation of the API does.

Nothing is run. The paths are read from the calls in the source of the command, and of the functions of the command line that it
refers to; what is put into a path at run time may be anything.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

OF_CALLS = {
    "get": {"GET"},
    "list": {"GET"},
    "pages": {"GET"},
    "events": {"GET"},
    "download": {"GET"},
    "post": {"POST"},
    "upload": {"POST"},
    "upload_in_parts": {"POST", "PUT"},
    "patch": {"PATCH"},
    "put": {"PUT"},
    "replace": {"PUT"},
    "delete": {"DELETE"},
}
"""Methods of `terracrew.client.http.Api`, and the methods of HTTP that they use."""
OF_PARTS = {"/uploads", "/uploads/*/*"}
"""What `upload_in_parts` requests by itself."""
FOLLOWED = ("terracrew.cli.", "terracrew.client.")
ANYTHING = "\0"


def requests(command: Callable[..., Any]) -> tuple[set[str], list[re.Pattern[str]]]:
    """Return the methods that a command uses, and the paths below /api/v1 that it may ask for."""
    methods: set[str] = set()
    paths: set[str] = set()
    seen: set[Any] = set()
    waiting: list[Any] = [inspect.unwrap(command)]
    while waiting:
        function = waiting.pop()
        if function in seen:
            continue
        seen.add(function)
        source = _source(function)
        if source is None:
            continue
        for node in ast.walk(source):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OF_CALLS:
                methods |= OF_CALLS[node.func.attr]
                paths |= OF_PARTS if node.func.attr == "upload_in_parts" else set()
            if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
                paths.update(_texts(node, function))
            if isinstance(node, ast.Name | ast.Attribute):
                found = _value(node, function)
                if isinstance(found, FunctionType) and found.__module__.startswith(FOLLOWED):
                    waiting.append(inspect.unwrap(found))
    return methods, [_pattern(path) for path in paths if path.startswith(("/", f"{ANYTHING}/"))]


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(rf"({ANYTHING}|\*)", path.partition("?")[0])
    words = {ANYTHING: ".*", "*": "[^/]+"}
    return re.compile("".join(words.get(part, re.escape(part)) for part in parts))


@cache
def _source(function: Any) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None


@cache
def _names(function: Any) -> dict[str, Any]:
    """Return what a function knows by name: the names of its module, and what it imports itself."""
    found = dict(function.__globals__)
    for node in ast.walk(_source(function) or ast.Module([], [])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("terracrew."):
            for name in node.names:
                found[name.asname or name.name] = _imported(node.module or "", name.name)
    return found


def _imported(module: str, name: str) -> Any:
    found = getattr(import_module(module), name, None)
    return import_module(f"{module}.{name}") if found is None else found


def _value(node: ast.expr, function: Any) -> Any:
    """Return what a name stands for in a function, also as a member of a module."""
    if isinstance(node, ast.Name):
        return _names(function).get(node.id)
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, function)
        return getattr(holder, node.attr, None) if isinstance(holder, ModuleType) else None
    return None


def _texts(node: ast.expr, function: Any, depth: int = 0) -> Iterator[str]:
    """Yield what an expression may be as a text. ANYTHING stands for what is not known, `*` for one part of a path."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        found = [""]
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            found = [f"{before}{text}" for before in found for text in _texts(inner, function, depth)][:20]
        yield from found
    elif isinstance(node, ast.BinOp):
        for left in _texts(node.left, function, depth):
            yield from (f"{left}{right}" for right in _texts(node.right, function, depth))
    elif isinstance(node, ast.Call):
        called = _value(node.func, function)
        called = inspect.unwrap(called) if isinstance(called, FunctionType) else None
        source = _source(called) if called and called.__module__.startswith("terracrew.cli.") and depth < 3 else None
        returned = [each.value for each in ast.walk(source) if isinstance(each, ast.Return)] if source else []
        texts = [text for each in returned if each for text in _texts(each, called, depth + 1)]
        yield from texts or ["*"]
    elif isinstance(node, ast.Name):
        value = _names(function).get(node.id)
        yield value if isinstance(value, str) else ANYTHING
    elif isinstance(node, ast.IfExp):
        yield from _texts(node.body, function, depth)
        yield from _texts(node.orelse, function, depth)
    else:
        yield "*"
