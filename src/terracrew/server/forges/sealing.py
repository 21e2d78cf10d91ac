"""Encrypts the credential of a connection for its row, and decrypts it where a request is made with it."""

import msgspec

from terracrew.server.forges.model import ForgeConnection, ForgeCredential
from terracrew.server.secrets.keyring import Keyring


def context(connection_id: str) -> str:
    """Return what the ciphertext of a connection is bound to."""
    return f"forge connection {connection_id}"


def seal(keys: Keyring, connection_id: str, credential: ForgeCredential) -> bytes:
    return keys.encrypt(msgspec.json.encode(credential), context(connection_id))


def unseal(keys: Keyring, connection: ForgeConnection) -> ForgeCredential:
    return msgspec.json.decode(keys.decrypt(connection.sealed, context(connection.id)), type=ForgeCredential)
