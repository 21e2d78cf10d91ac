"""The key of a module. An engine that encrypts the secrets in its state itself, such as Pulumi, uses it for all of the module's jobs.

Without the key nobody can read these secrets, so it is stored, encrypted under the master key, and never replaced.
"""

import base64
import secrets

from terracrew.server.db.seam import Tx
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.modules import store

_KEY_BYTES = 32
_ENGINES_WITHOUT_KEY = frozenset({"tofu", "terraform"})
"""Their states are encrypted by Terracrew alone. Whether an engine of another package needs a key is not known here."""


def context(module_id: str) -> str:
    return f"module-key:{module_id}"


async def of_engine(tx: Tx, keys: Keyring, module_id: str, engine: str, sealed: bytes | None) -> bytes:
    """Return the key for a job, and make it for the first job that needs one; empty if the engine needs none.

    `sealed` is what the module's row has. A module has one active job at most, so no other job makes a key at the same time.
    """
    if engine in _ENGINES_WITHOUT_KEY:
        return b""
    if sealed is not None:
        return keys.decrypt(bytes(sealed), context(module_id))
    key = secrets.token_bytes(_KEY_BYTES)
    await store.set_key(tx, module_id, keys.encrypt(key, context(module_id)))
    return key


async def values_to_mask(tx: Tx, keys: Keyring, module_id: str) -> list[str]:
    """Return the key as the text that an engine gets, if the module has one."""
    sealed = await store.sealed_key(tx, module_id)
    return [] if sealed is None else [base64.b64encode(keys.decrypt(sealed, context(module_id))).decode()]
