"""References to values that are kept elsewhere: `vault:kv/terracrew#token`, `file:/run/secrets/token`.

A reference is no secret, so messages repeat it. A text that is not a reference may be the secret itself, so they do not repeat that.
"""

import contextlib
import json
import os
import re
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from terracrew.client import address

FILE, VARIABLE, PROGRAM, VAULT = "file", "variable", "exec", "vault"
AWS_SECRET, AWS_PARAMETER, AZURE = "aws-secret", "aws-parameter", "azure"
SCHEMES = (AWS_PARAMETER, AWS_SECRET, AZURE, PROGRAM, FILE, VARIABLE, VAULT)
MAX_REFERENCE_CHARACTERS = 4096
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_VAULT_PATH = re.compile(r"[^/?#\s]+(/[^/?#\s]+)+")
_VERSION = re.compile(r"version=([1-9][0-9]{0,9})")
_AWS_NAME = re.compile(r"[A-Za-z0-9/_+=.@:-]{1,2048}")
_AZURE_PATH = re.compile(r"/secrets/[0-9A-Za-z-]{1,127}(/[0-9a-f]{32})?")
_NOT_A_REFERENCE = "is not a reference: it must begin with " + ", ".join(f"`{each}:`" for each in SCHEMES)


class Reference(msgspec.Struct, frozen=True):
    scheme: str
    target: str
    """What the store calls the secret: a path, a name, an address. Empty for a program."""
    field: str = ""
    """The key of a value in a secret that is a JSON object; empty if the whole secret is the value."""
    version: int = 0
    """The version of a secret in Vault; 0 is the newest."""
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the reference for a message. The arguments of a program are left out, because people put secrets there."""
        if self.scheme == PROGRAM:
            return f"{PROGRAM}:{json.dumps([self.command[0]])[:-1]}{', …' if len(self.command) > 1 else ''}]"
        version = f"?version={self.version}" if self.version else ""
        return f"{self.scheme}:{self.target}{version}{'#' if self.field else ''}{self.field}"


def parse(text: str) -> Reference:
    """Return the reference in a text. Raises ValueError with words that do not repeat the text."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in SCHEMES or len(text) > MAX_REFERENCE_CHARACTERS or not text.isprintable():
        raise ValueError(_NOT_A_REFERENCE)
    match scheme:
        case "exec":
            return Reference(scheme, "", command=_command(rest))
        case "variable":
            if not _VARIABLE.fullmatch(rest):
                raise ValueError("must be `variable:` and the name of an environment variable")
            return Reference(scheme, rest)
        case "file":
            return _file(*_with_field(rest))
        case "vault":
            return _vault(*_with_field(rest))
        case "azure":
            return _azure(*_with_field(rest))
        case _:
            name, field = _with_field(rest)
            if not _AWS_NAME.fullmatch(name):
                raise ValueError(
                    f"must be `{scheme}:` and a name or an ARN, then `#field` if the value is a part of JSON"
                )
            return Reference(scheme, name, field)


def _with_field(rest: str) -> tuple[str, str]:
    target, _, field = rest.partition("#")
    return target, field


def _command(rest: str) -> tuple[str, ...]:
    found: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(rest)
    words = cast("list[Any]", found) if isinstance(found, list) else []
    if not words or not all(isinstance(each, str) for each in words) or not os.path.isabs(words[0]):
        raise ValueError(
            "must be `exec:` and a JSON list with the absolute path of a program and its arguments, such as "
            '`exec:["/usr/bin/pass", "show", "terracrew"]`'
        )
    return tuple(cast("list[str]", words))


def _file(path: str, field: str) -> Reference:
    path = os.path.expanduser(path)
    if not os.path.isabs(path):
        raise ValueError(
            "must be `file:` and the absolute path of a file, then `#field` if the value is a part of JSON"
        )
    return Reference(FILE, os.path.normpath(path), field)


def _vault(rest: str, field: str) -> Reference:
    path, question, query = rest.partition("?")
    version = _VERSION.fullmatch(query)
    is_path = _VAULT_PATH.fullmatch(path) and not {".", ".."} & set(path.split("/"))
    if not is_path or not field or (question and version is None):
        raise ValueError(
            "must be `vault:MOUNT/PATH#FIELD`, or `vault:MOUNT/PATH?version=N#FIELD` for an earlier version"
        )
    return Reference(VAULT, path, field, int(version[1]) if version else 0)


def _azure(url: str, field: str) -> Reference:
    is_valid = address.is_address(url)
    if is_valid:
        parts = urlsplit(url)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and address.is_loopback(url))
        is_valid = is_safe and "@" not in parts.netloc and not parts.query and bool(_AZURE_PATH.fullmatch(parts.path))
    if not is_valid:
        raise ValueError(
            "must be `azure:` and the identifier of a secret, such as `https://NAME.vault.azure.net/secrets/NAME`"
        )
    return Reference(AZURE, url, field)
