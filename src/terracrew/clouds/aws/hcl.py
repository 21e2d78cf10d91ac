"""Values as HCL, laid out as `tofu fmt` does."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

_INDENT = "  "


class Expression(NamedTuple):
    """Text that is an expression of HCL and no string, such as `var.name`."""

    text: str


class FunctionCall(NamedTuple):
    function: str
    argument: Any


def block(header: str, attributes: dict[str, Any]) -> str:
    return f"{header} {{\n{_lines(attributes.items(), _INDENT)}}}\n"


def to_string(text: str) -> str:
    """Return a quoted string in which nothing is replaced when it is read."""
    return json.dumps(text, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _value(value: Any, indent: str) -> str:
    inner = indent + _INDENT
    match value:
        case Expression(text):
            return text
        case FunctionCall(function, argument):
            return f"{function}({_value(argument, indent)})"
        case dict():
            items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            entries = ((each if each.isidentifier() else to_string(each), content) for each, content in items.items())
            return f"{{\n{_lines(entries, inner)}{indent}}}"
        case list():
            listed: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
            if len(listed) == 1 and isinstance(listed[0], str):
                return f"[{_value(listed[0], indent)}]"
            return "[\n" + "".join(f"{inner}{_value(each, inner)},\n" for each in listed) + f"{indent}]"
        case _:
            return to_string(str(value))


def _lines(entries: Iterable[tuple[str, Any]], indent: str) -> str:
    """Return one attribute for each line. Equals signs of neighbours that have one line each are below each other."""
    written = [(name, _value(value, indent)) for name, value in entries]
    lines: list[str] = []
    for index, (name, text) in enumerate(written):
        width = len(name)
        if "\n" not in text:
            first = last = index
            while first > 0 and "\n" not in written[first - 1][1]:
                first -= 1
            while last + 1 < len(written) and "\n" not in written[last + 1][1]:
                last += 1
            width = max(len(each) for each, _ in written[first : last + 1])
        lines.append(f"{indent}{name.ljust(width)} = {text}\n")
    return "".join(lines)
