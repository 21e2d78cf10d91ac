"""The shared runners that a settings file declares, and which declaration is in effect: one for all servers of a database."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from terracrew.server.db import stored_values
from terracrew.server.db.seam import Tx
from terracrew.settings.shared_runners import BuiltInRunner, RemoteRunner

_VALUE = "shared_runners"


class DeclaredRunner(msgspec.Struct, frozen=True, kw_only=True):
    """A shared runner that a settings file declares: what matters to all servers. Paths on one server's machine do not."""

    name: str
    kind: Literal["built-in", "remote"]
    description: str = ""
    tags: tuple[str, ...] = ()
    max_jobs: int
    """How many jobs each instance has at most."""
    allow_multiple_instances: bool = False
    worker_token_sha256: str | None = None
    """Of a remote runner; a built-in one has a token that the servers make."""


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """Whose declaration it is."""

    digest: str
    """Equal for equal declarations, whatever their files are called."""
    file: str
    host: str
    server_id: str
    declared_at: datetime


def digest(declared: Sequence[DeclaredRunner]) -> str:
    """Return a hash that is equal for equal declarations."""
    shared = [msgspec.structs.astuple(each) for each in sorted(declared, key=lambda each: each.name)]
    return hashlib.sha256(msgspec.json.encode(shared)).hexdigest()


def declared_runners(found: Mapping[str, BuiltInRunner | RemoteRunner], slots: int) -> list[DeclaredRunner]:
    """Return what the settings declare, sorted by name. A built-in runner that does not say how many jobs it runs has `slots`."""
    return [_declared(name, each, slots) for name, each in sorted(found.items())]


def _declared(name: str, found: BuiltInRunner | RemoteRunner, slots: int) -> DeclaredRunner:
    is_remote = isinstance(found, RemoteRunner)
    return DeclaredRunner(
        name=name,
        kind=found.kind,
        description=found.description,
        tags=tuple(sorted(set(found.tags))),
        max_jobs=found.max_jobs if is_remote else found.slots or slots,
        allow_multiple_instances=found.allow_multiple_instances if is_remote else True,
        worker_token_sha256=found.token_sha256 if is_remote else None,
    )


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
