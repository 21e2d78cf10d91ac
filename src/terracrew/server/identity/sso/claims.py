"""Which claims of a token are kept: without what looks like a secret, and bounded in number and size. Pure functions."""

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from terracrew.masking import names
from terracrew.server.identity.sso import mapping

MAX_BYTES = 64 << 10
MAX_BYTES_OF_CLAIM = 48 << 10
"""Some providers send groups as long names of a directory. The other claims have room beside them."""
MAX_CLAIMS = 200
MAX_TEXT_CHARACTERS = 500
MAX_LEVELS = 4
_OF_THE_TOKEN = frozenset({"at_hash", "c_hash", "s_hash", "nonce", "jti", "exp", "iat", "nbf", "auth_time", "rt_hash"})
"""Claims that differ in every token and say nothing of the person."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\Z")
MASK = "(not kept: it looks like a secret)"
CUT = "…"
"""What stands in the place of what has no room: the end of a text, further values of a list, or a whole value."""


def kept(claims: Mapping[str, Any], first: Collection[str] = ()) -> dict[str, Any]:
    """Return what is stored of the claims, and what rules are evaluated with. `first` are kept before others if all are too much."""
    named = {each[1:].partition("/")[0] if each.startswith("/") else each for each in first}
    important = [name for name in claims if name in named]
    found: dict[str, Any] = {}
    room = MAX_BYTES
    for name in dict.fromkeys((*important, *claims)):
        short = name[:MAX_TEXT_CHARACTERS]
        if name in _OF_THE_TOKEN or len(found) >= MAX_CLAIMS or room <= _size(short):
            continue
        found[short] = _fitting(_kept(short, claims[name], 1), min(room - _size(short), MAX_BYTES_OF_CLAIM))
        room -= _size(short) + _size(found[short])
    return found


def notes(claims: Mapping[str, Any], groups_claim: str) -> tuple[str, ...]:
    """Return what an administrator should know of these claims."""
    said: list[str] = []
    sources = claims.get("_claim_names")
    is_overage = isinstance(sources, dict) and "groups" in cast("dict[str, Any]", sources)
    if is_overage or claims.get("hasgroups") in (True, "true"):
        said.append(
            "Microsoft Entra ID has left the groups out, because there are too many for a token (more than 200). Let the "
            "application send only the groups that are assigned to it, or application roles, and use the claim roles"
        )
    elif groups_claim and mapping.claims_rules.claim(claims, groups_claim) is None:
        said.append(f"there is no claim {groups_claim}: no rule about groups can match")
    groups = mapping.claims_rules.claim(claims, groups_claim) if groups_claim else None
    if groups == CUT:
        said.append("the groups are too long to be read")
    elif isinstance(groups, list) and CUT in groups:
        said.append(
            f"only the first {cast('list[Any]', groups).index(CUT):,} groups are read: let the provider send fewer"
        )
    return tuple(said)


def _kept(name: str, value: Any, level: int) -> Any:
    if names.is_secret(name) and not isinstance(value, bool):
        return MASK
    if isinstance(value, str):
        if _TOKEN.match(value):
            return MASK
        return value if len(value) <= MAX_TEXT_CHARACTERS else value[:MAX_TEXT_CHARACTERS] + CUT
    if value is None or isinstance(value, bool | int | float):
        return value
    if level >= MAX_LEVELS:
        return CUT
    if isinstance(value, list):
        values = cast("list[Any]", value)
        first = [_kept(name, each, level + 1) for each in values[: mapping.MAX_VALUES]]
        return [*first, CUT] if len(values) > mapping.MAX_VALUES else first
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())[:MAX_CLAIMS]
        return {key[:MAX_TEXT_CHARACTERS]: _kept(key[:MAX_TEXT_CHARACTERS], each, level + 1) for key, each in items}
    return CUT


def _fitting(value: Any, room: int) -> Any:
    """Return as much of a value as has room: the first values of a list, and `CUT` in the place of the others."""
    if _size(value) <= room:
        return value
    if isinstance(value, list):
        values: list[Any] = []
        for each in cast("list[Any]", value):
            room -= _size(each)
            if room <= 0:
                break
            values.append(each)
        return [*values, CUT]
    if isinstance(value, dict):
        parts: dict[str, Any] = {}
        for name, each in cast("dict[str, Any]", value).items():
            room -= _size(name)
            if room <= 0:
                break
            parts[name] = _fitting(each, room)
            room -= _size(parts[name])
        return parts
    return CUT


def _size(value: Any) -> int:
    """Return how many bytes a value takes with the comma or colon that follows it."""
    return len(msgspec.json.encode(value)) + 1
