"""The ES256 keys that sign access tokens. All servers of a database share them, and the private parts are encrypted at rest."""

import base64
import time
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey

from terracrew import ids
from terracrew.errors import TerracrewError, Unauthenticated
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity.keys import store
from terracrew.server.secrets.keyring import Keyring

ALGORITHM = "ES256"  # the identity federation of every cloud accepts it as well
VERIFY_AFTER_SECONDS = 3600.0
"""How long a retired key verifies, which is longer than any token is valid."""
REFRESH_SECONDS = 300.0
UNKNOWN_KEY_SECONDS = 5.0
"""A token of an unknown key makes a server read its keys again, but not more often than this: anybody can make such tokens."""
PUBLISHED_SECONDS = 86400.0
"""How long a new key is public before it signs: every server has read it by then, and so have the clouds that trust it."""
NEVER_SECONDS = 253_402_300_800.0
"""The year 10,000, which is stored as the time of retirement of a key that does not sign yet."""
_MAX_TOKEN_CHARACTERS = 4096
_ES256 = jws.default_registry.get_alg(ALGORITHM)
GENERIC = "this credential is not valid"


class SigningState(msgspec.Struct, frozen=True):
    """Which key signs, and which one follows it."""

    active_id: str
    next_id: str | None = None
    next_signs_from: float | None = None


class SigningKeys:
    def __init__(self, db: Database, keyring: Keyring) -> None:
        self._db = db
        self._keyring = keyring
        self._public: dict[str, ECKey] = {}
        self._active: tuple[str, ECKey] | None = None
        self._loaded_at = float("-inf")
        self.state = SigningState("")

    async def load(self) -> None:
        """Read the keys. If there is none yet, make the first one."""
        rows = await self._db.read(_rows)
        if not any(row["is_active"] for row in rows):
            rows = await self._db.write(self._make)
        self._public = {row["id"]: ECKey.import_key(msgspec.json.decode(row["public_jwk"])) for row in rows}
        active = next(row for row in rows if row["is_active"])
        private = self._keyring.decrypt(bytes(active["private_jwk"]), context(active["id"]))
        self._active = active["id"], ECKey.import_key(msgspec.json.decode(private))
        following = next((row for row in rows if not row["is_active"] and row["retired_at"] == NEVER_SECONDS), None)
        next_id, signs_from = (following["id"], following["signs_from"]) if following else (None, None)
        self.state = SigningState(active["id"], next_id, signs_from)
        self._loaded_at = time.monotonic()

    async def publish_next(self, tx: Tx, not_before: float = 0.0) -> str:
        """Make a key and return its id. Every server publishes it and verifies with it at once, and it signs from tomorrow on, or
        from a later time."""
        new, public, private = self._generate()
        signs_from = max(tx.now + PUBLISHED_SECONDS, not_before)
        await store.insert_next(tx, new, public, private, signs_from, NEVER_SECONDS)
        return new

    async def sign(self, claims: dict[str, Any], kind: str) -> str:
        """Make a token. Its `kind` is the `typ` header, so that a token made for one use is not accepted for another."""
        if self._active is None or time.monotonic() - self._loaded_at > REFRESH_SECONDS:
            await self.load()
        if self._active is None:
            raise TerracrewError("there is no key to sign with")
        key_id, key = self._active
        # `jwt.encode` checks the header and the key each time, which takes longer than the signature.
        header = msgspec.json.encode({"alg": ALGORITHM, "kid": key_id, "typ": kind})
        text = _base64(header) + b"." + _base64(msgspec.json.encode(claims))
        return (text + b"." + _base64(_ES256.sign(text, key))).decode()

    async def verify(self, token: str, kind: str) -> dict[str, Any]:
        """Return the claims of a token that one of our keys signed. The caller must check the claims."""
        try:
            if len(token) > _MAX_TOKEN_CHARACTERS:
                raise ValueError
            found = jws.extract_compact(token.encode("ascii"))
            header = found.headers()
            key_id = header.get("kid")
            if header.get("alg") != ALGORITHM or header.get("typ") != kind or not isinstance(key_id, str):
                raise ValueError
            if key_id not in self._public and time.monotonic() - self._loaded_at > UNKNOWN_KEY_SECONDS:
                await self.load()
            # `jwt.decode` parses everything again and checks the key each time, which takes longer than the signature.
            signed, _, signature = token.encode("ascii").rpartition(b".")
            if not _ES256.verify(signed, _from_base64(signature), self._public[key_id]):
                raise ValueError
            return msgspec.json.decode(found.payload, type=dict[str, Any])
        except (JoseError, ValueError, KeyError, TypeError, msgspec.MsgspecError):
            raise Unauthenticated(GENERIC) from None

    def jwks(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self._public.values()]}

    async def _make(self, tx: Tx) -> list[Row]:
        new, public, private = self._generate()
        await store.insert_first(tx, new, public, private)
        return await _rows(tx)

    def _generate(self) -> tuple[str, str, bytes]:
        """Return a new key: its id, its public part, and its private part as it is stored."""
        new = ids.new("key")
        key = ECKey.generate_key("P-256", {"kid": new, "use": "sig", "alg": ALGORITHM}, private=True)
        private = self._keyring.encrypt(msgspec.json.encode(key.as_dict(private=True)), context(new))
        return new, msgspec.json.encode(key.as_dict(private=False)).decode(), private


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _from_base64(text: bytes) -> bytes:
    return base64.b64decode(text + b"=" * (-len(text) % 4), b"-_", validate=True)


async def _rows(tx: Tx) -> list[Row]:
    return await store.verifying(tx, tx.now - VERIFY_AFTER_SECONDS)


def context(key_id: str) -> str:
    return f"signing-key:{key_id}"
