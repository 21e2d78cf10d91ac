"""The literal inputs and the environment of a module itself, as its API shows and replaces them, and their conversion.

They are stored as rows of `inputs`. An earlier version stored them in one column of the module.
"""

from typing import Any

import msgspec

from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.groups.store import DELETED_ORGANIZATION
from terracrew.server.inputs import changes, sealing
from terracrew.server.inputs import store as input_store
from terracrew.server.inputs.model import Target
from terracrew.server.modules import store
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.secrets.keyring import Keyring

_BATCH_ROWS = 200


class Content(msgspec.Struct, frozen=True):
    inputs: dict[str, Any] = {}
    environment: dict[str, str] = {}

    def __repr__(self) -> str:
        return "Content(…)"


_decode = msgspec.json.Decoder(Content).decode


async def load(tx: Tx, keys: Keyring, module_id: str) -> Content:
    found = Content({}, {})
    for each in await input_store.at_place(tx, module_id):
        if each.kind == "literal" and each.sealed is not None and each.target != "file":
            values = found.inputs if each.target == "variable" else found.environment
            values[each.name] = sealing.opened(keys, each)
    return found


async def save(tx: Tx, keys: Keyring, module_id: str, content: Content, who: Principal = SYSTEM) -> None:
    """Make these the only literals of a module. What does not change keeps its version and who set it."""
    await _replace(tx, keys, module_id, content, who)
    await changes.check_room(tx, module_id)


async def _replace(tx: Tx, keys: Keyring, module_id: str, content: Content, who: Principal) -> None:
    wanted: dict[Target, dict[str, Any]] = {"variable": content.inputs, "environment": content.environment}
    await changes.replace_literals(tx, keys, who, module_id, wanted)


def earlier_context(module_id: str) -> str:
    return f"module-content:{module_id}"


async def convert_earlier(db: Database, keys: Keyring) -> int:
    """Convert in batches what an earlier version stored in the rows of modules. After an interruption, the next call continues.

    Returns how many modules were converted.
    """

    async def work(tx: Tx) -> tuple[int, bool]:
        rows = await store.hold_earlier_content(tx, _BATCH_ROWS)
        for row in rows:
            if row["organization_id"] != DELETED_ORGANIZATION:  # what is left of a deleted module has no use for it
                # The earlier version had no limit of their number, and the server must start with whatever there is.
                await _replace(tx, keys, row["id"], _earlier(keys, row), SYSTEM)
            await store.forget_earlier_content(tx, row["id"])
        # The rows above may be fewer than a batch although more follow, because another server has just converted some.
        return len(rows), await store.has_earlier_content(tx)

    count, has_more = 0, True
    while has_more:
        done, has_more = await db.write(work)
        count += done
    return count


def _earlier(keys: Keyring, row: Row) -> Content:
    """Return the content that an earlier version stored, encrypted or, by a still earlier one, in plain text."""
    if row["earlier_sealed"] is None:
        return _decode('{"inputs":' + row["plain_inputs"] + ',"environment":' + row["plain_environment"] + "}")
    return _decode(keys.decrypt(bytes(row["earlier_sealed"]), earlier_context(row["id"])))
