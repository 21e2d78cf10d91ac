"""Finds the token for a host of HCP Terraform or Terraform Enterprise where the engines' own command lines find it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from terracrew.errors import Invalid, Unauthenticated

MAX_FILE_BYTES = 1 << 20
_FILES = (
    ".terraform.d/credentials.tfrc.json",
    ".config/opentofu/credentials.tfrc.json",
    ".opentofu.d/credentials.tfrc.json",
    ".tofu.d/credentials.tfrc.json",
)


class HostToken(NamedTuple):
    text: str
    origin: str
    """Where it was found, for messages."""

    def __repr__(self) -> str:
        return f"HostToken(from {self.origin})"


def find(host: str, given: str | None, environment: Mapping[str, str] = os.environ) -> HostToken:
    """Return the token for a host: the one that was given, or that of the environment, or that of a credentials file."""
    found = _find(host, given, environment)
    if not found.text.isascii() or not found.text.isprintable() or " " in found.text:
        raise Unauthenticated(f"the token from {found.origin} contains characters that a token cannot have")
    return found


def _find(host: str, given: str | None, environment: Mapping[str, str]) -> HostToken:
    if given is not None:
        if not given.strip():
            raise Invalid("no token arrived on standard input")
        return HostToken(given.strip(), "standard input")
    name = variable(host)
    if text := environment.get(name, "").strip():
        return HostToken(text, name)
    home = Path(environment.get("HOME") or Path.home())
    for each in _FILES:
        if text := _in_file(home / each, host):
            return HostToken(text, f"~/{each}")
    raise Unauthenticated(
        f"there is no token for {host}",
        hint=f"`terraform login {host}` stores one; {name} sets one for a single command; --token-stdin reads one",
    )


def variable(host: str) -> str:
    """Return the environment variable that has the token of a host."""
    return f"TF_TOKEN_{host.replace('-', '__').replace('.', '_').replace(':', '_')}"


def _in_file(file: Path, host: str) -> str:
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            return ""
        document: Any = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    for key in ("credentials", host, "token"):
        document = cast("dict[str, Any]", document).get(key) if isinstance(document, dict) else None
    return document.strip() if isinstance(document, str) else ""
