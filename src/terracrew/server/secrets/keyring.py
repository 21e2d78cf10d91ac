"""The master key, which encrypts stored secrets with AES-GCM. Every ciphertext names the key that it needs.

A ciphertext consists of the format's version, eight bytes that name the key, the nonce, and the output of AES-GCM. Several keys
may be given, one per line. The first one encrypts and all decrypt, so a key can be replaced while old ciphertexts still exist
(`terracrew server rekey` encrypts them again).

A ciphertext is bound to its first nine bytes and to its context.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.errors import Invalid, Undecryptable
from terracrew.server.db import stored_values
from terracrew.server.db.seam import Database, Tx
from terracrew.system import durable

FILE_NAME = "master.key"
_FORMAT = b"\x01"
_ID_BYTES, _NONCE_BYTES, _TAG_BYTES = 8, 12, 16
HEAD_BYTES = len(_FORMAT) + _ID_BYTES
"""The length of the beginning of a ciphertext, which contains its format and the id of its key."""
GROWTH_BYTES = len(_FORMAT) + _ID_BYTES + _NONCE_BYTES + _TAG_BYTES
"""The number of bytes by which a ciphertext is longer than its plain text."""
CHECK = "master_key_check"
"""The setting by which a wrong key is recognized."""


class Keyring:
    """Encrypts and decrypts. It is synchronous, so that it can be used in a transaction."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != 32 for key in keys):
            raise Invalid("a master key must have 32 bytes: make one with `openssl rand -base64 32`")
        self._ciphers = {_id_of(key): AESGCM(key) for key in keys}
        self._primary = _id_of(keys[0])
        self._checksums = hmac.new(keys[0], b"terracrew checksum", hashlib.sha256).digest()

    def __repr__(self) -> str:
        return f"Keyring({', '.join(key.hex() for key in self._ciphers)})"

    @property
    def head(self) -> bytes:
        """The beginning of every ciphertext that this keyring makes."""
        return _FORMAT + self._primary

    @property
    def key_id(self) -> str:
        """The id of the key that encrypts."""
        return self._primary.hex()

    def has(self, key_id: str) -> bool:
        """Return whether this keyring can decrypt what was encrypted under that key."""
        return any(key.hex() == key_id for key in self._ciphers)

    def checksum(self, content: bytes, context: str) -> str:
        """Return a checksum that only this key can compute, so that it does not help to guess the content. Within a context, equal
        contents have equal checksums until the key is replaced."""
        return hmac.digest(self._checksums, context.encode() + b"\0" + content, "sha256").hex()

    def encrypt(self, plain: bytes, context: str) -> bytes:
        """Encrypt for one context. The result can be decrypted only with the same context."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self._primary].encrypt(nonce, plain, self.head + context.encode())
        return self.head + nonce + sealed

    def decrypt(self, sealed: bytes, context: str) -> bytes:
        """Decrypt what was encrypted for this context."""
        key, rest = sealed[1:HEAD_BYTES], sealed[HEAD_BYTES:]
        if sealed[:1] != _FORMAT or len(rest) < _NONCE_BYTES:
            raise Undecryptable(f"{context} cannot be decrypted: it does not have the format of a ciphertext")
        cipher = self._ciphers.get(key)
        if cipher is None:
            raise Undecryptable(f"{context} was encrypted under master key {key.hex()}, which was not given")
        try:
            return cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], sealed[:HEAD_BYTES] + context.encode())
        except InvalidTag:
            raise Undecryptable(f"{context} cannot be decrypted: it was changed, or belongs elsewhere") from None


async def open_keyring(
    db: Database, given: str | None = None, file: Path | None = None, generate_in: Path | None = None
) -> Keyring:
    """Load the master key from a text or a file, and refuse a key that does not belong to this database.

    `generate_in` is the folder of an embedded SQLite database. Only there, a missing key is generated, beside the data. Other
    databases are shared and outlive a server's disk, so their key must be given.
    """
    sealed = await db.read(lambda tx: stored_values.get(tx, CHECK))
    if not given and file is None and db.kind == "sqlite" and generate_in is not None:
        file = generate_in / FILE_NAME
        if sealed is None and not file.exists():
            _generate(file)
    keyring = Keyring(parse(given or _read(file)))

    async def check(tx: Tx) -> None:
        stored = await stored_values.get_or_put(tx, CHECK, keyring.encrypt(b"terracrew", CHECK))
        try:
            keyring.decrypt(stored, CHECK)
        except Undecryptable as error:
            raise Invalid(f"this is not the master key of this database: {error.message}") from None

    await db.write(check)
    return keyring


def parse(text: str) -> list[bytes]:
    """Return the keys in a text, one per line, each 32 bytes in base64 or hexadecimal."""
    return [_decoded(line.strip()) for line in text.splitlines() if line.strip()]


def _read(file: Path | None) -> str:
    if file is None:
        raise Invalid("the master key is missing: give it as text or by a file (`openssl rand -base64 32` makes one)")
    try:
        return file.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise Invalid(
            f"the master key {file} cannot be read ({reason}); this database cannot be opened without it"
        ) from None


def _decoded(line: str) -> bytes:
    try:
        if len(line) == 64:
            return bytes.fromhex(line)
        return base64.b64decode(line.replace("-", "+").replace("_", "/") + "=" * (-len(line) % 4), validate=True)
    except (ValueError, binascii.Error):
        # The message does not quote the text, because it may be most of a key.
        raise Invalid("the master key is neither base64 nor hexadecimal") from None


def _generate(file: Path) -> None:
    """Write a new key to the file, durably. If a power cut left the file empty, nothing in the database could be decrypted again."""
    durable.publish(file, base64.b64encode(secrets.token_bytes(32)) + b"\n")


def _id_of(key: bytes) -> bytes:
    return hashlib.sha256(b"terracrew master key" + key).digest()[:_ID_BYTES]
