"""Signatures of files in the format of minisign: an Ed25519 key signs a file, and a comment about the file with it.

A signature covers the BLAKE2b hash of the file (`ED`), so that a file of any size is read in pieces. Signatures of older programs cover
the file itself (`Ed`): they are verified too, up to a limit, because the whole file must be in memory.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from terracrew.errors import Invalid, TooLarge
from terracrew.source_rules.version_ranges import parse_version

Content = bytes | Path | Iterable[bytes]
"""A file, or its content whole or in pieces."""

MAX_TEXT_CHARACTERS = 16_384
"""More than the longest comments that minisign itself accepts (1,024 and 8,192 bytes)."""
MAX_UNHASHED_BYTES = 64 * 2**20
"""The largest file whose signature of the older kind is verified."""
READ_BYTES = 2**20

SENSITIVE_OPERATION_COUNT, SENSITIVE_MEMORY_BYTES = 2**25, 2**30
"""What minisign chooses for the password of a secret key. Deriving the key takes about three seconds and 1 GiB of memory."""

_UNTRUSTED = "untrusted comment: "
_TRUSTED = "trusted comment: "
_UNHASHED, _HASHED = b"Ed", b"ED"
_WITH_PASSWORD, _WITHOUT_PASSWORD = b"Sc", b"\0\0"
_FILENAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


class PublicKey(msgspec.Struct, frozen=True):
    """The key that verifies signatures. As text it is the one line that `minisign -P` takes."""

    id: bytes
    point: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the line of a key, or the file that has a comment before it."""
        content = _decode(_without_comment(text, "public key"), 42, "public key")
        if content[:2] != _UNHASHED:
            raise Invalid("This is not a public key of minisign: its algorithm is not Ed25519.")
        return cls(content[2:10], content[10:])

    def __str__(self) -> str:
        return _encode(_UNHASHED + self.id + self.point)

    @property
    def id_text(self) -> str:
        return _id_text(self.id)

    def to_file(self) -> str:
        """Return the content of the file `minisign.pub`."""
        return f"{_UNTRUSTED}minisign public key {self.id_text}\n{self}\n"

    def is_signature_of(self, signed: bytes, signature: bytes) -> bool:
        try:
            ed25519.Ed25519PublicKey.from_public_bytes(self.point).verify(signature, signed)
        except (InvalidSignature, ValueError):
            return False
        return True


class Signature(msgspec.Struct, frozen=True):
    """A signature as its file has it. Nothing in it is true before it was verified."""

    key_id: bytes
    is_hashed: bool
    signature: bytes
    trusted_comment: str
    comment_signature: bytes

    @classmethod
    def parse(cls, text: str) -> Self:
        if len(text) > MAX_TEXT_CHARACTERS:
            raise TooLarge(f"A signature has at most {MAX_TEXT_CHARACTERS:,} characters.")
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
        if len(lines) != 4 or not lines[0].startswith(_UNTRUSTED) or not lines[2].startswith(_TRUSTED):
            raise Invalid(
                "This is not a signature of minisign: it has four lines, an untrusted comment, the signature, a trusted comment,"
                " and the signature of the comment."
            )
        content = _decode(lines[1], 74, "signature")
        if content[:2] not in (_UNHASHED, _HASHED):
            raise Invalid("This is not a signature of minisign: its algorithm is not Ed25519.")
        comment = lines[2].removeprefix(_TRUSTED)
        if not comment.isprintable():
            raise Invalid("The trusted comment of the signature has characters that cannot be printed.")
        return cls(
            content[2:10], content[:2] == _HASHED, content[10:], comment, _decode(lines[3], 64, "comment's signature")
        )

    def to_file(self, untrusted_comment: str) -> str:
        algorithm = _HASHED if self.is_hashed else _UNHASHED
        return (
            f"{_UNTRUSTED}{untrusted_comment}\n{_encode(algorithm + self.key_id + self.signature)}\n"
            f"{_TRUSTED}{self.trusted_comment}\n{_encode(self.comment_signature)}\n"
        )


class Verifier:
    """Verifies content that arrives in pieces: `update` for each, then `finish`. Key and comment are checked before the first."""

    def __init__(self, key: PublicKey, signature_text: str, *, is_hash_required: bool = False) -> None:
        """With `is_hash_required`, signatures of the older kind are refused.

        No part of a signature says for sure of which kind it is. So whoever says that a newer one is an older one has a signature of
        something that nobody signed: of the 64 bytes of the hash.
        """
        self._key = key
        self._signature = Signature.parse(signature_text)
        if is_hash_required and not self._signature.is_hashed:
            raise Invalid(
                "The signature covers the whole file instead of its hash: sign it with a newer minisign, or with its option -H."
            )
        if self._signature.key_id != key.id:
            raise Invalid(
                f"The signature was made with key {_id_text(self._signature.key_id)}, not with key {key.id_text}."
            )
        if not key.is_signature_of(
            self._signature.signature + self._signature.trusted_comment.encode(), self._signature.comment_signature
        ):
            raise Invalid("The trusted comment of the signature was changed, or the signature is not by this key.")
        self._hash = hashlib.blake2b()
        self._whole = bytearray()

    def update(self, piece: bytes) -> None:
        if self._signature.is_hashed:
            self._hash.update(piece)
        elif len(self._whole) + len(piece) > MAX_UNHASHED_BYTES:
            raise TooLarge(
                f"The signature covers the whole file instead of its hash, and the file has more than {MAX_UNHASHED_BYTES // 2**20} MiB."
                " Sign it with a newer minisign, or with its option -H."
            )
        else:
            self._whole += piece

    def finish(self) -> str:
        """Return the trusted comment if the signature is by the key and of this content."""
        signed = self._hash.digest() if self._signature.is_hashed else bytes(self._whole)
        if not self._key.is_signature_of(signed, self._signature.signature):
            raise Invalid("The signature does not fit the content: one of them was changed.")
        return self._signature.trusted_comment


def verify(key: PublicKey, content: Content, signature_text: str, *, is_hash_required: bool = False) -> str:
    """Return the trusted comment if the signature is by the key and of this content."""
    verifier = Verifier(key, signature_text, is_hash_required=is_hash_required)
    for piece in _pieces(content):
        verifier.update(piece)
    return verifier.finish()


class SecretKey(msgspec.Struct, frozen=True):
    """The key that signs. Its representation does not show its seed."""

    id: bytes
    seed: bytes

    @classmethod
    def generate(cls) -> Self:
        return cls(secrets.token_bytes(8), secrets.token_bytes(32))

    @classmethod
    def parse(cls, text: str, password: str = "") -> Self:
        """Read the file of a secret key. The password of a key that has none is not looked at."""
        content = _decode(_without_comment(text, "secret key"), 158, "secret key")
        algorithm, protection, checksum = content[:2], content[2:4], content[4:6]
        if algorithm != _UNHASHED or checksum != b"B2" or protection not in (_WITH_PASSWORD, _WITHOUT_PASSWORD):
            raise Invalid("This is not a secret key of minisign.")
        protected = content[54:]
        if protection == _WITH_PASSWORD:
            operations, memory_bytes = (
                int.from_bytes(content[38:46], "little"),
                int.from_bytes(content[46:54], "little"),
            )
            protected = _xor(protected, _key_stream(password, content[6:38], operations, memory_bytes))
        key = cls(protected[:8], protected[8:40])
        # minisign writes no checksum into a key without a password.
        size = 96 if protection == _WITH_PASSWORD or any(protected[72:]) else 64
        if not hmac.compare_digest(protected[8 : 8 + size], key._whole_and_checksum()[:size]):
            raise Invalid("The password of the secret key is wrong, or its file was changed.")
        return key

    def __repr__(self) -> str:
        return f"SecretKey({self.id_text})"

    @property
    def id_text(self) -> str:
        return _id_text(self.id)

    @property
    def public_key(self) -> PublicKey:
        return PublicKey(self.id, self._private.public_key().public_bytes_raw())

    @property
    def _private(self) -> ed25519.Ed25519PrivateKey:
        return ed25519.Ed25519PrivateKey.from_private_bytes(self.seed)

    def sign(self, content: bytes) -> bytes:
        return self._private.sign(content)

    def to_file(
        self,
        password: str = "",
        *,
        operations: int = SENSITIVE_OPERATION_COUNT,
        memory_bytes: int = SENSITIVE_MEMORY_BYTES,
    ) -> str:
        """Return the content of the file `minisign.key`: encrypted with the password, or readable if that is empty."""
        protected = self.id + self._whole_and_checksum()
        if not password:
            protection, salt, operations, memory_bytes = _WITHOUT_PASSWORD, bytes(32), 0, 0
        else:
            protection, salt = _WITH_PASSWORD, secrets.token_bytes(32)
            protected = _xor(protected, _key_stream(password, salt, operations, memory_bytes))
        limits = operations.to_bytes(8, "little") + memory_bytes.to_bytes(8, "little")
        kind = "encrypted " if password else ""
        return f"{_UNTRUSTED}minisign {kind}secret key\n{_encode(_UNHASHED + protection + b'B2' + salt + limits + protected)}\n"

    def _whole_and_checksum(self) -> bytes:
        """Return what follows the key's id: seed and public point, as libsodium keeps a secret key, and the checksum of all."""
        whole = self.seed + self.public_key.point
        return whole + hashlib.blake2b(_UNHASHED + self.id + whole, digest_size=32).digest()


def has_password(text: str) -> bool:
    """Return whether the file of a secret key is encrypted, so that its password must be asked for."""
    return _decode(_without_comment(text, "secret key"), 158, "secret key")[2:4] == _WITH_PASSWORD


def sign(key: SecretKey, content: Content, trusted_comment: str, untrusted_comment: str = "") -> str:
    """Return the content of the file with the signature, which has the name of the signed file and `.minisig`."""
    untrusted_comment = untrusted_comment or f"signature by key {key.id_text}"
    for comment in (trusted_comment, untrusted_comment):
        if not comment.isprintable() or len(comment.encode()) > 1000:
            raise Invalid("The comment of a signature is one line of at most 1,000 bytes.")
    digest = hashlib.blake2b()
    for piece in _pieces(content):
        digest.update(piece)
    signature = key.sign(digest.digest())
    comment_signature = key.sign(signature + trusted_comment.encode())
    return Signature(key.id, True, signature, trusted_comment, comment_signature).to_file(untrusted_comment)


def release_comment(version: str, filename: str) -> str:
    """Return the trusted comment of a file of a release. It prevents that an older file is offered as a newer one."""
    if parse_version(version) is None or not version.isprintable():
        raise Invalid(f"{version!r} is not a semantic version such as 0.1.0-rc.1.")
    if not _FILENAME.fullmatch(filename):
        raise Invalid(f"{filename!r} is not a name for a file of a release: it has letters, digits and . _ + - only.")
    return f"terracrew {version} {filename}"


def verify_release_file(key: PublicKey, content: Content, signature_text: str, version: str, filename: str) -> None:
    """Raise `Invalid` unless the key signed this content as this file of this version of Terracrew."""
    check_release_comment(verify(key, content, signature_text, is_hash_required=True), version, filename)


def check_release_comment(trusted_comment: str, version: str, filename: str) -> None:
    """Raise `Invalid` unless a verified comment says that the file is this one of this version of Terracrew."""
    expected = release_comment(version, filename)
    if trusted_comment != expected:
        raise Invalid(f"The signature is for {trusted_comment!r}, not for {expected!r}.")


def _pieces(content: Content) -> Iterable[bytes]:
    if isinstance(content, bytes):
        yield content
    elif isinstance(content, Path):
        with content.open("rb") as file:
            while piece := file.read(READ_BYTES):
                yield piece
    else:
        yield from content


def _without_comment(text: str, what: str) -> str:
    if len(text) > MAX_TEXT_CHARACTERS:
        raise TooLarge(f"A {what} has at most {MAX_TEXT_CHARACTERS:,} characters.")
    lines = [line for each in text.split("\n") if (line := each.strip())]
    if len(lines) == 2 and lines[0].startswith(_UNTRUSTED.strip()):
        del lines[0]
    if len(lines) != 1:
        raise Invalid(f"A {what} of minisign is one line, or a line with an untrusted comment and one with the key.")
    return lines[0]


def _decode(text: str, size_bytes: int, what: str) -> bytes:
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise Invalid(f"The {what} is not Base64.") from None
    if len(content) != size_bytes:
        raise Invalid(f"The {what} has {len(content)} bytes instead of {size_bytes}.")
    return content


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _id_text(key_id: bytes) -> str:
    return f"{int.from_bytes(key_id, 'little'):016X}"


def _xor(content: bytes, stream: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(content, stream, strict=True))


def _key_stream(password: str, salt: bytes, operations: int, memory_bytes: int) -> bytes:
    """Derive 104 bytes from a password, with the parameters that libsodium computes from its two limits."""
    if operations > SENSITIVE_OPERATION_COUNT * 4 or memory_bytes > SENSITIVE_MEMORY_BYTES:
        raise Invalid("The secret key asks for more work or memory than minisign itself uses, so it is refused.")
    operations = max(operations, 32_768)
    if operations < memory_bytes // 32:
        cost, parallel = _power_of_two(operations // 32), 1
    else:
        cost = _power_of_two(memory_bytes // 1024)
        parallel = max(operations // 4 // cost // 8, 1)
    return Scrypt(salt, 104, cost, 8, parallel).derive(password.encode())


def _power_of_two(limit: int) -> int:
    """Return the lowest power of two, but at least two, that is more than half of the limit."""
    return max(2, 1 << (limit // 2).bit_length())
