"""Identifiers that start with the kind of their object: `job_` and the 32 hexadecimal digits of a UUIDv7."""

import re

from uuid_utils import uuid7

from terracrew.errors import Invalid

KINDS = {
    "org": "organization",
    "grp": "group",
    "mod": "module",
    "rnr": "runner",
    "ins": "runner instance",
    "job": "job",
    "usr": "user",
    "ses": "session",
    "tok": "API token",
    "sac": "service account",
    "sec": "client secret",
    "arc": "archive",
    "sta": "state",
    "aud": "audit entry",
    "key": "key",
    "srv": "server",
    "rol": "role binding",
    "upl": "upload",
}
_UUID = re.compile(r"^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\Z")


def new(kind: str) -> str:
    """Create an id. Ids sort by the time of their creation."""
    return f"{kind}_{uuid7().hex}"


def parse(kind: str, text: str) -> str:
    """Return an id, given with or without its kind, in the form that is stored; raise Invalid if it is not an id."""
    head, _, tail = text.rpartition("_")
    if head and head != kind:
        raise Invalid(f"{text!r} is not the id of a {KINDS[kind]}: such an id starts with `{kind}_`")
    if not _UUID.match(tail.lower()):
        raise Invalid(f"{text!r} is not an id: expected `{kind}_` and a UUID")
    return f"{kind}_{tail.lower().replace('-', '')}"


def is_id(kind: str, text: str) -> bool:
    """Return whether the text is an id of this kind, not a name or a path."""
    head, _, tail = text.rpartition("_")
    return head in ("", kind) and _UUID.match(tail.lower()) is not None
