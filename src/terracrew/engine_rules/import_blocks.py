"""Import blocks for OpenTofu and Terraform, written from addresses and ids that were read in a log and can hold anything."""

import re
from collections.abc import Sequence

from terracrew.protocol.spec import ImportedResource

FILE_NAME = "terracrew_lost_resources.tf"
ENGINES = ("tofu", "terraform")
"""The engines that have import blocks."""
MAX_ADDRESS_CHARACTERS = 4096
_HEADER = "# Written by Terracrew: these resources exist, and no state records them.\n"
_NAME = r"[^\W\d][\w-]*"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_KEY = rf"\[(?:\d{{1,18}}|{_QUOTED})\]"
_ADDRESS = re.compile(rf"(?:module\.{_NAME}(?:{_KEY})?\.)*(?P<type>{_NAME})\.{_NAME}(?:{_KEY})?")
_KEY_TEXT = re.compile(_QUOTED)
_CHARACTER = re.compile(
    r"\\u(?P<short>[0-9a-fA-F]{4})|\\U(?P<long>[0-9a-fA-F]{8})|\\(?P<escaped>[nrt\"\\])|(?P<doubled>\$\$\{|%%\{)"
    r"|(?P<refused>\$\{|%\{|\\.)|.",
    re.S,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_OF_CHARACTER = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def checked_address(text: str) -> str:
    """Return the address of a managed resource as the engines write it; '' if the text is not such an address.

    Names have only the characters of identifiers, and each key is quoted anew, so the text can be part of a configuration.
    """
    if len(text) > MAX_ADDRESS_CHARACTERS or not (match := _ADDRESS.fullmatch(text)) or match["type"] == "data":
        return ""
    try:
        return _KEY_TEXT.sub(lambda key: quoted(_unquoted(key[0])), text)
    except ValueError:
        return ""


def type_of(address: str) -> str:
    """Return the type of the resource at an address; '' if the text is not an address."""
    match = _ADDRESS.fullmatch(address) if len(address) <= MAX_ADDRESS_CHARACTERS else None
    return match["type"] if match else ""


def instance_address(module: str, resource_type: str, name: str, key: str | int | None) -> str:
    """Return the address of an instance in a state, as the engines print it."""
    prefix = f"{module}." if module else ""
    index = "" if key is None else f"[{key}]" if isinstance(key, int) else f"[{quoted(key)}]"
    return f"{prefix}{resource_type}.{name}{index}"


def quoted(text: str) -> str:
    """Return the text as a string of a configuration. The engines quote the keys in addresses in the same way."""
    parts: list[str] = []
    for at, character in enumerate(text):
        if character in _OF_CHARACTER:
            parts.append(_OF_CHARACTER[character])
        elif character in "$%" and text[at + 1 : at + 2] == "{":
            parts.append(character * 2)  # otherwise an expression would begin here
        elif character.isprintable():
            parts.append(character)
        else:
            number = ord(character)
            parts.append(f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}")
    return '"' + "".join(parts) + '"'


def block(resource: ImportedResource) -> str:
    """Return the import block of a resource, whose address is checked already."""
    return f"import {{\n  to = {resource.address}\n  id = {quoted(resource.id)}\n}}\n"


def file_text(resources: Sequence[ImportedResource]) -> str:
    return "\n".join([_HEADER, *map(block, resources)])


def _unquoted(text: str) -> str:
    """Return what a quoted key stands for. Raises ValueError for an expression in it, and for an escape that does not exist."""
    return "".join(map(_character, _CHARACTER.finditer(text[1:-1])))


def _character(match: re.Match[str]) -> str:
    if number := match["short"] or match["long"]:
        return chr(int(number, 16))
    if match["escaped"]:
        return _ESCAPES.get(match["escaped"], match["escaped"])
    if match["refused"]:
        raise ValueError(match["refused"])
    return match["doubled"][1:] if match["doubled"] else match[0]
