"""Identifiers that start with the kind of their object: `job_` and the 32 hexadecimal digits of a UUIDv7."""

import re

from uuid_utils import UUID, uuid5, uuid7

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
    "onc": "once token",
    "trp": "trust policy",
    "arc": "archive",
    "sta": "state",
    "aud": "audit entry",
    "alr": "alert about a runner",
    "key": "key",
    "srv": "server",
    "rel": "release",
    "rtk": "release token",
    "rol": "role binding",
    "upl": "upload",
    "pub": "published module",
    "pbv": "version of a published module",
    "inp": "version of an input",
    "grn": "run of a group",
    "hld": "hold",
    "hst": "point of the history",
    "sto": "object store",
    "cid": "cloud identity",
    "cin": "cloud instance",
    "fjb": "fleet job",
    "rlo": "roll-out",
    "sch": "schedule",
    "mut": "mute of a drifted address",
    "upd": "update of a runner instance",
    "nch": "notification channel",
    "ntf": "notification",
    "fcn": "connection to a forge",
    "frp": "repository of a forge",
    "fdl": "delivery of a forge",
    "prq": "pull request",
    "fcm": "comment of a forge",
    "dsc": "discovery rule",
    "pol": "policy",
    "lck": "lock of a module",
    "cfv": "configuration version",
    "sup": "upload of a state",
    "pgr": "provisioned group",
    "idp": "identity provider",
    "irl": "rule of an identity provider",
    "iid": "identity of a person",
    "ilg": "login by an identity provider",
}
_NAMES = UUID("6f8f2f0e-4c1b-5d0a-9d57-0b8c7f4a2e61")
"""The namespace of ids that are made from names. Changing it would change them."""
_UUID = re.compile(r"^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\Z")


def new(kind: str) -> str:
    """Create an id. Ids sort by the time of their creation."""
    return f"{kind}_{uuid7().hex}"


def of_name(kind: str, name: str) -> str:
    """Return the id of what is declared by its name, so that it is the same before and after it exists."""
    return f"{kind}_{uuid5(_NAMES, f'{kind}:{name}').hex}"


def parse(kind: str, text: str) -> str:
    """Return an id, given with or without its kind, in the form that is stored; raise Invalid if it is not an id."""
    head, _, tail = text.rpartition("_")
    if head and head != kind:
        article = "an" if KINDS[kind].startswith(("a", "A", "o", "up")) else "a"
        raise Invalid(f"{text!r} is not the id of {article} {KINDS[kind]}: such an id starts with `{kind}_`")
    if not _UUID.match(tail.lower()):
        raise Invalid(f"{text!r} is not an id: expected `{kind}_` and a UUID")
    return f"{kind}_{tail.lower().replace('-', '')}"


def is_id(kind: str, text: str) -> bool:
    """Return whether the text is an id of this kind, not a name or a path."""
    head, _, tail = text.rpartition("_")
    return head in ("", kind) and _UUID.match(tail.lower()) is not None


def created_at(text: str) -> float:
    """Return when an id was made, in seconds since 1970, by the clock of the process that made it."""
    return int(text.rpartition("_")[2][:12], 16) / 1000
