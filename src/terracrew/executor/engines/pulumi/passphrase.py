"""Encrypts values as Pulumi's passphrase provider does, so that no process is given a secret in its arguments.

`pulumi config set --secret` would take the value from its input, and half a second for each.
"""

import base64
import hashlib
import os

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_HASH_COUNT = 1_000_000
"""How often Pulumi hashes a passphrase to make a key of it."""
_KEY_BYTES = 32
_SALT_BYTES = 8
_NONCE_BYTES = 12
_CHECK = "pulumi"
"""The text that Pulumi decrypts to find out whether a passphrase is right."""


class PassphraseCipher:
    """The key that a passphrase and a salt make.

    The salt is that of the settings, if they have one. Otherwise that of a random passphrase is derived from it, so that it is the
    same for all jobs of a module, and Pulumi makes one key for its settings and its state. What is derived from a passphrase
    that a person chose would help to guess it, so its salt is random.
    """

    def __init__(self, passphrase: str, settings_salt: str = "", *, is_random: bool) -> None:
        def some(use: str, size: int) -> bytes:
            return _derived(passphrase, use, size) if is_random else os.urandom(size)

        salt = _salt(settings_salt) or some("salt", _SALT_BYTES)
        self._key = hashlib.pbkdf2_hmac("sha256", passphrase.encode(), salt, _HASH_COUNT, _KEY_BYTES)
        nonce = some("check", _NONCE_BYTES)  # if it is derived, it is always used with the same text
        self.settings_salt = settings_salt or f"v1:{base64.b64encode(salt).decode()}:{self._sealed(_CHECK, nonce)}"

    def encrypt(self, text: str) -> str:
        return self._sealed(text, os.urandom(_NONCE_BYTES))

    def _sealed(self, text: str, nonce: bytes) -> str:
        sealed = AESGCM(self._key).encrypt(nonce, text.encode(), None)
        return f"v1:{base64.b64encode(nonce).decode()}:{base64.b64encode(sealed).decode()}"


def _salt(settings_salt: str) -> bytes:
    """Return the salt in the `encryptionsalt` of settings; nothing if there is none that Pulumi could read."""
    parts = settings_salt.split(":", 2)
    try:
        return base64.b64decode(parts[1], validate=True) if len(parts) == 3 and parts[0] == "v1" else b""
    except ValueError:
        return b""


def _derived(passphrase: str, use: str, size: int) -> bytes:
    return hashlib.sha256(f"terracrew:{use}:{passphrase}".encode()).digest()[:size]
