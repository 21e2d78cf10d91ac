"""The inputs and the environment of a module. They are encrypted at rest, and only the module's jobs get all of their values."""

import secrets
from typing import Any

import msgspec

from terracrew.server.db.seam import Database, Tx
from terracrew.server.modules import store
from terracrew.server.secrets.keyring import Keyring

_BATCH_ROWS = 200


class Content(msgspec.Struct, frozen=True):
    inputs: dict[str, Any] = {}
    environment: dict[str, str] = {}

    def __repr__(self) -> str:
        return "Content(…)"


_decode = msgspec.json.Decoder(Content).decode


def context(module_id: str) -> str:
    return f"module-content:{module_id}"


def opened(keys: Keyring, module_id: str, sealed: bytes | None) -> Content:
    return Content() if sealed is None else _decode(keys.decrypt(bytes(sealed), context(module_id)))


def plain_texts(keys: Keyring, module_id: str, sealed: bytes | None) -> list[str]:
    """Return the inputs and the environment as an earlier version stored them. The hashes of waiting plans were made from these texts."""
    if sealed is None:
        return ["{}", "{}"]
    found = msgspec.json.decode(keys.decrypt(bytes(sealed), context(module_id)), type=dict[str, msgspec.Raw])
    return [bytes(found[field]).decode() for field in ("inputs", "environment")]


async def load(tx: Tx, keys: Keyring, module_id: str) -> Content:
    return opened(keys, module_id, await store.sealed_content(tx, module_id))


async def save(tx: Tx, keys: Keyring, module_id: str, content: Content) -> None:
    """Store the content with a new revision. The revision shows later whether a plan was made from this content. It is random,
    because the content could be guessed from a hash."""
    sealed = keys.encrypt(msgspec.json.encode(content), context(module_id))
    await store.set_content(tx, module_id, sealed, revision=secrets.token_hex(8))


async def seal_plain(db: Database, keys: Keyring) -> int:
    """Encrypt in batches what an earlier version stored in plain text. After an interruption, the next call continues."""

    async def work(tx: Tx) -> tuple[int, bool]:
        rows = await store.hold_plain(tx, _BATCH_ROWS)
        for row in rows:
            plain = '{"inputs":' + row["plain_inputs"] + ',"environment":' + row["plain_environment"] + "}"
            await store.seal_plain(tx, row["id"], keys.encrypt(plain.encode(), context(row["id"])))
        # The rows above may be fewer than a batch although more follow, because another server has just encrypted some.
        return len(rows), await store.has_plain(tx)

    count, has_more = 0, True
    while has_more:
        done, has_more = await db.write(work)
        count += done
    return count
