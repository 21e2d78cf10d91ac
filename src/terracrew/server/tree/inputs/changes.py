"""Writes new versions of inputs and removes inputs. The caller has locked the place and checked its permissions."""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew import ids
from terracrew.api.inputs import Kind, Target
from terracrew.errors import Conflict, TooLarge, Undecryptable
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs import checks, sealing, store
from terracrew.server.tree.inputs.model import Input

MAX_VERSIONS = 10
"""How many versions of an input are kept, so that the log of a job that still uses an earlier secret can be masked."""
MAX_REMOVALS = 500
"""How many removed secrets of a place are remembered, so that a job that waited for one of them can say so."""


async def put(
    tx: Tx,
    keys: Keyring,
    who: Principal,
    place_id: str,
    target: Target,
    name: str,
    kind: Kind,
    value: Any,
    source: tuple[str, str] | None = None,
) -> Input:
    """Set an input, unless it has this value already and is no secret. Returns its newest version.

    `source` is the id of the module and the name of the output that the input is.
    """
    before = await store.current(tx, place_id, target, name)
    plain = msgspec.json.encode(value)
    # Whoever sets a reference again answers for it from then on: it is given as long as they may read the state of its source.
    is_own = kind != "output" or (before is not None and before.set_by == who.id and before.ended_by_name is None)
    if before is not None and kind == before.kind != "secret" and is_own and _has_value(keys, before, plain):
        return before
    version = 1 if before is None else before.version + 1
    sealed = sealing.sealed(keys, place_id, target, name, version, plain)
    made = _version(tx, who, place_id, target, name, version, kind, sealed, len(plain))
    if source is not None:
        made = msgspec.structs.replace(made, source_module_id=source[0], source_output=source[1])
    await store.insert(tx, made)
    await store.delete_versions(tx, place_id, target, name, version - MAX_VERSIONS)
    return made


async def take(tx: Tx, who: Principal, before: Input) -> None:
    """Remove an input. Of a secret, the removal itself is remembered and the values of all versions are erased."""
    place_id, target, name = before.place_id, before.target, before.name
    if before.kind == "secret":
        await store.insert(tx, _version(tx, who, place_id, target, name, before.version + 1, "secret", None, 0))
        await store.erase(tx, place_id, target, name)
        await store.delete_removals(tx, place_id, MAX_REMOVALS)
    else:
        await store.delete_versions(tx, place_id, target, name, before.version)


async def replace_literals(
    tx: Tx, keys: Keyring, who: Principal, place_id: str, wanted: Mapping[Target, Mapping[str, Any]]
) -> None:
    """Make these the only literals of a place that have one of these targets. Its other inputs stay as they are."""
    found = {(each.target, each.name): each for each in await store.at_place(tx, place_id)}
    for each in found.values():
        is_concerned = each.target in wanted and each.kind == "literal" and each.sealed is not None
        if is_concerned and each.name not in wanted[each.target]:
            await take(tx, who, each)
    for target, values in wanted.items():
        for name, value in values.items():
            before = found.get((target, name))
            if before is not None and before.kind != "literal" and before.sealed is not None:
                what = {"output": "an output of another module", "definition": "a definition"}.get(
                    before.kind, "a secret"
                )
                hint = "remove it first (terracrew input remove), or leave it out"
                raise Conflict(f"{name} is set as {what} here: {hint}")
            await put(tx, keys, who, place_id, target, name, "literal", value)


async def check_room(tx: Tx, place_id: str) -> None:
    """Refuse a change after which a place has too many inputs, or too large ones."""
    found = [each for each in await store.at_place(tx, place_id) if each.sealed is not None]
    if len(found) > checks.MAX_INPUTS:
        raise TooLarge(f"{len(found):,} inputs are too many: a place can have at most {checks.MAX_INPUTS:,}")
    for target in {each.target for each in found}:
        size = sum(each.size for each in found if each.target == target)
        if size > checks.MAX_CONTENT_BYTES:
            raise TooLarge(
                f"{target}: {size:,} bytes are too many: at most {checks.MAX_CONTENT_BYTES:,} are allowed at one place"
            )


def _has_value(keys: Keyring, each: Input, plain: bytes) -> bool:
    """Return whether an input has this value. What cannot be decrypted any more can still be replaced."""
    try:
        return each.sealed is not None and msgspec.json.encode(sealing.opened(keys, each)) == plain
    except Undecryptable:
        return False


def _version(
    tx: Tx,
    who: Principal,
    place_id: str,
    target: Target,
    name: str,
    version: int,
    kind: Kind,
    sealed: bytes | None,
    size: int,
) -> Input:
    now = tx.moment
    return Input(ids.new("inp"), place_id, target, name, version, kind, sealed, size, True, who.id, who.name, now)
