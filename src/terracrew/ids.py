"""Identifiers that say what they name: `job_` and thirty-two hexadecimal digits of a UUIDv7."""

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
    """Make an id that sorts by the time of its making."""
    return f"{kind}_{uuid7().hex}"


def parse(kind: str, text: str) -> str:
    """Bring an id, with or without its kind, into the one form we store, or say what is wrong with it."""
    head, _, tail = text.rpartition("_")
    if head and head != kind:
        raise Invalid(f"{text!r} is not the id of a {KINDS[kind]}: that starts with `{kind}_`")
    if not _UUID.match(tail.lower()):
        raise Invalid(f"{text!r} is not an id: expected `{kind}_` and a UUID")
    return f"{kind}_{tail.lower().replace('-', '')}"


def is_id(kind: str, text: str) -> bool:
    """Tell an id of this kind from a name or a path."""
    head, _, tail = text.rpartition("_")
    return head in ("", kind) and _UUID.match(tail.lower()) is not None
