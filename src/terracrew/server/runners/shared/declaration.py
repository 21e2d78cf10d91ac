"""Which declaration of shared runners is in effect: one for all servers of a database."""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from terracrew.server.db import stored_values
from terracrew.server.db.seam import Tx
from terracrew.server.settings import DeclaredRunner

_VALUE = "shared_runners"


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """Whose declaration it is."""

    digest: str
    """Equal for equal declarations, whatever their files are called."""
    file: str
    host: str
    server_id: str
    declared_at: datetime


def digest(declared: Sequence[DeclaredRunner]) -> str:
    """Return a hash of what matters to all servers. Paths on one server's machine do not."""
    shared = [
        (
            each.name,
            each.kind,
            each.description,
            each.tags,
            each.max_jobs,
            each.allow_multiple_instances,
            each.worker_token_sha256,
        )
        for each in sorted(declared, key=lambda each: each.name)
    ]
    return hashlib.sha256(msgspec.json.encode(shared)).hexdigest()


async def current(tx: Tx) -> Declaration | None:
    """Return the declaration that is in effect, if a settings file has declared shared runners."""
    stored = await stored_values.get(tx, _VALUE)
    return None if stored is None else _decoded(stored)


async def hold(tx: Tx) -> Declaration | None:
    """Return the declaration that is in effect. Other transactions that change shared runners wait until this one ends."""
    await stored_values.get_or_put(tx, _VALUE, b"null")
    return _decoded(await stored_values.hold(tx, _VALUE))


async def replace(tx: Tx, declaration: Declaration) -> Declaration | None:
    """Put a declaration into effect and return the one before it. Other transactions that do so wait until this one ends."""
    before = await hold(tx)
    await stored_values.put(tx, _VALUE, msgspec.json.encode(declaration))
    return before


def _decoded(stored: bytes) -> Declaration | None:
    return msgspec.json.decode(stored, type=Declaration | None)
