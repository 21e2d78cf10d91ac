"""Verifies the signature of a token of another issuer with that issuer's public keys.

The algorithm comes from a list of ours and must belong to the type of the key. So neither `none`, nor an HMAC with a public key as its
secret, nor an algorithm of another type of key is ever tried.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from terracrew.server.identity.federation.model import TokenRefused

MAX_TOKEN_CHARACTERS = 12_000
MAX_KEYS = 100
MAX_TRIED_KEYS = 3
"""The most keys that are tried for one token: those of its key id, or all that fit if it names none."""
MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "EdDSA": "Ed25519", "Ed25519": "Ed25519"}
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_PUBLIC_MEMBERS = frozenset({"kty", "kid", "use", "key_ops", "alg", "n", "e", "crv", "x", "y"})
"""The members of a key that are read. A private key that was published by mistake is used as a public one."""


class ParsedToken(msgspec.Struct, frozen=True):
    """What a token says of itself before it is verified."""

    signed: jws.CompactSignature
    claims: dict[str, Any]
    """Nothing in them may be believed before `verify` has returned them."""
    algorithm: str
    key_id: str | None
    issuer: str
    sha256: str
    """The hash of what is signed. The signature is not part of it, because one text can have several valid ones."""


class VerifyingKey(msgspec.Struct, frozen=True):
    key_id: str | None
    kind: str
    """The curve, or RSA."""
    algorithm: str | None
    key: RSAKey | ECKey | OKPKey

    def fits(self, token: ParsedToken) -> bool:
        if token.key_id is not None and self.key_id != token.key_id:
            return False
        if self.algorithm is not None and self.algorithm != token.algorithm:
            return False
        return self.kind == ("RSA" if token.algorithm in _RSA else _CURVES[token.algorithm])


def parse(text: str, max_characters: int = MAX_TOKEN_CHARACTERS) -> ParsedToken:
    """Read the header and the issuer of a token that nobody has verified yet."""
    try:
        if len(text) > max_characters:
            raise TokenRefused("the token is too long")
        found = jws.extract_compact(text.encode("ascii"))
        header, claims = found.headers(), msgspec.json.decode(found.payload, type=dict[str, Any])
    except (JoseError, ValueError, TypeError, KeyError, msgspec.MsgspecError, RecursionError):
        raise TokenRefused("the token is not a signed JSON web token") from None
    algorithm, key_id, issuer = header.get("alg"), header.get("kid"), claims.get("iss")
    if not isinstance(algorithm, str) or (algorithm not in _RSA and algorithm not in _CURVES):
        raise TokenRefused("the token's algorithm is not accepted")
    if "crit" in header or "b64" in header or not isinstance(key_id, str | None) or not isinstance(issuer, str):
        raise TokenRefused("the token's header or issuer is not accepted")
    sha256 = hashlib.sha256(text.rpartition(".")[0].encode()).hexdigest()
    return ParsedToken(found, claims, algorithm, key_id, issuer, sha256)


def read_keys(document: bytes) -> tuple[VerifyingKey, ...]:
    """Return the keys of a JWKS that can verify signatures. Others are left out."""
    try:
        found = msgspec.json.decode(document, type=dict[str, Any]).get("keys")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise TokenRefused("the issuer's keys are not JSON") from None
    if not isinstance(found, list):
        raise TokenRefused("the issuer's keys are not a list")
    keys = (_key(each) for each in cast("list[Any]", found)[:MAX_KEYS])
    return tuple(key for key in keys if key is not None)


def verify(token: ParsedToken, keys: Sequence[VerifyingKey]) -> dict[str, Any]:
    """Return the claims, if one of these keys signed them."""
    for key in keys[:MAX_TRIED_KEYS]:
        try:
            if jws.validate_compact(token.signed, key.key, [token.algorithm]):
                return token.claims
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
    raise TokenRefused("the token's signature is not valid")


def _key(found: object) -> VerifyingKey | None:
    if not isinstance(found, dict):
        return None
    jwk = {name: value for name, value in cast("dict[str, Any]", found).items() if name in _PUBLIC_MEMBERS}
    key_id, algorithm, operations = jwk.get("kid"), jwk.get("alg"), jwk.get("key_ops")
    is_for_signatures = jwk.get("use", "sig") == "sig" and (
        operations is None or (isinstance(operations, list) and "verify" in operations)
    )
    if jwk.get("kty") not in ("RSA", "EC", "OKP") or not is_for_signatures:
        return None
    if not isinstance(key_id, str | None) or not isinstance(algorithm, str | None):
        return None
    try:
        key = JWKRegistry.import_key({name: jwk[name] for name in jwk if name not in ("use", "key_ops", "alg")})
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey):
        is_sound = MIN_RSA_BITS <= key.raw_value.key_size <= MAX_RSA_BITS
        return VerifyingKey(key_id, "RSA", algorithm, key) if is_sound else None
    if isinstance(key, ECKey | OKPKey) and jwk.get("crv") in _CURVES.values():
        return VerifyingKey(key_id, str(jwk["crv"]), algorithm, key)
    return None
