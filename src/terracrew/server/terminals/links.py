"""Addresses that command lines use without their token: for an upload, for a log, for a state.

An address has a sealed text in it, which says what it is for, who has asked for it and when it ends. It gives that person's own
rights, as they are when it is used, to that one thing.
"""

from typing import Literal

import msgspec

from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.identity import bearer
from terracrew.server.identity.people import acting
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import sealed_texts
from terracrew.server.secrets.keyring import Keyring

UPLOAD_SECONDS = 3600.0
LOG_SECONDS = 8 * 24 * 3600.0
"""A plan may wait for approval for a week, and its log is read with the same address afterwards."""
LinkKind = Literal["configuration", "plan", "apply", "state", "json_state"]
_CONTEXT = "address of a command line"
_UNSEEN = "there is nothing at this address, or it has expired"


class SealedAddress(msgspec.Struct, frozen=True):
    kind: LinkKind
    of: str
    """The id of what it is about."""
    actor_id: str
    organization_id: str
    ends_at: float
    credential_id: str = ""
    """The token with which it was asked for."""


def for_caller(keys: Keyring, who: Principal, kind: LinkKind, of: str, now: float) -> str:
    """Return the sealed text of an address for somebody."""
    seconds = LOG_SECONDS if kind in ("plan", "apply") else UPLOAD_SECONDS
    link = SealedAddress(kind, of, who.id, who.organization_id or "", now + seconds, who.credential_id or "")
    return sealed_texts.seal(keys, link, _CONTEXT)


def opened(keys: Keyring, sealed: str, kinds: tuple[LinkKind, ...], now: float) -> SealedAddress:
    link = sealed_texts.unseal(keys, sealed, SealedAddress, _CONTEXT)
    if link is None or link.kind not in kinds or link.ends_at < now:
        raise NotFound(_UNSEEN)
    return link


async def actor(tx: Tx, link: SealedAddress) -> Principal:
    """Return who has asked for an address, with the rights that they have now. It ends with the token that it was asked for with."""
    who = await acting.principal(tx, link.actor_id, link.organization_id)
    who = None if who is None else msgspec.structs.replace(who, credential_id=link.credential_id)
    if who is None or not await bearer.is_credential_valid(tx, who):
        raise NotFound(_UNSEEN)
    return who
