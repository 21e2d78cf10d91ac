"""Makes ciphertexts as earlier versions made them."""

import secrets

from terracrew.server.secrets.keyring import Keyring


def sealed_by_an_earlier_version(keys: Keyring, plain: bytes, context: str) -> bytes:
    """Format 1: bound to its context, and not to its own beginning."""
    key_id, nonce = bytes.fromhex(keys.key_id), secrets.token_bytes(12)
    return b"\x01" + key_id + nonce + keys._ciphers[key_id].encrypt(nonce, plain, context.encode())  # pyright: ignore
