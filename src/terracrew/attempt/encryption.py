"""Encrypts an attempt's states and outputs between its executor and the server, with AES-256-GCM and the attempt's key.

The ciphertext is bound to the attempt: what one attempt encrypted cannot be passed off as another's.
"""

import base64
import hashlib
import hmac
import os

from cryptography import exceptions
from cryptography.hazmat.primitives.ciphers import aead

NONCE_BYTES, TAG_BYTES = 12, 16


BACKEND_USER = "attempt"


def context(job_id: str, attempt: int) -> str:
    """Return what binds a ciphertext to its attempt (the associated data of the cipher)."""
    return f"{job_id}:{attempt}"


def saved_plan_context(job_id: str, attempt: int) -> str:
    """Return what binds an encrypted plan to the attempt that made it."""
    return f"{context(job_id, attempt)}:plan"


class AttemptCipher:
    def __init__(self, key: bytes, job_id: str, attempt: int) -> None:
        self._cipher, self._context = aead.AESGCM(key), context(job_id, attempt).encode()

    def encrypt(self, content: bytes) -> bytes:
        """Return a random nonce followed by the ciphertext."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, content, self._context)

    def decrypt(self, encrypted: bytes) -> bytes:
        """Return the content. Raise ValueError if it was changed, or belongs to another attempt or key."""
        try:
            return self._cipher.decrypt(encrypted[:NONCE_BYTES], encrypted[NONCE_BYTES:], self._context)
        except (exceptions.InvalidTag, ValueError):
            raise ValueError("it cannot be decrypted with the attempt's key") from None


def backend_secret(hub_credential: str) -> str:
    """Derive this attempt's loopback secret from its credentials, so that a salvage can mask it, too."""
    return hmac.new(hub_credential.encode(), b"loopback state backend", hashlib.sha256).hexdigest()


def backend_authorization(secret: str) -> str:
    """Return the secret as the engine sends it in its `Authorization` header."""
    return base64.b64encode(f"{BACKEND_USER}:{secret}".encode()).decode()
