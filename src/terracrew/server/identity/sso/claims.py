"""Which claims of a token are kept: without what looks like a secret, and bounded in number and size. Pure functions."""

import re
from collections.abc import Collection, Mapping
from typing import Any, cast

import msgspec

from terracrew.masking import names
from terracrew.server.identity.sso import mapping

MAX_BYTES = 64 << 10
MAX_CLAIMS = 200
MAX_TEXT_CHARACTERS = 500
MAX_LEVELS = 4
_OF_THE_TOKEN = frozenset({"at_hash", "c_hash", "s_hash", "nonce", "jti", "exp", "iat", "nbf", "auth_time", "rt_hash"})
"""Claims that differ in every token and say nothing of the person."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*\Z")
MASK = "(not kept: it looks like a secret)"
CUT = "…"


def kept(claims: Mapping[str, Any], first: Collection[str] = ()) -> dict[str, Any]:
    """Return what is stored of the claims, and what rules are evaluated with. `first` are kept before others if all are too much."""
    named = {each[1:].partition("/")[0] if each.startswith("/") else each for each in first}
    important = [name for name in claims if name in named]
    found: dict[str, Any] = {}
    size = 0
    for name in dict.fromkeys((*important, *claims)):
        if name in _OF_THE_TOKEN or len(found) >= MAX_CLAIMS:
            continue
        value = _kept(name[:MAX_TEXT_CHARACTERS], claims[name], 1)
        needed = len(name) + len(msgspec.json.encode(value))
        if size + needed > MAX_BYTES:
            continue
        size += needed
        found[name[:MAX_TEXT_CHARACTERS]] = value
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
    if isinstance(groups, list) and len(cast("list[Any]", groups)) >= mapping.MAX_VALUES:
        said.append(f"only the first {mapping.MAX_VALUES:,} groups are read")
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
        return [_kept(name, each, level + 1) for each in cast("list[Any]", value)[: mapping.MAX_VALUES]]
    if isinstance(value, dict):
        items = list(cast("dict[str, Any]", value).items())[:MAX_CLAIMS]
        return {key[:MAX_TEXT_CHARACTERS]: _kept(key[:MAX_TEXT_CHARACTERS], each, level + 1) for key, each in items}
    return CUT
