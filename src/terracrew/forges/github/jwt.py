"""Signs the token by which an application of GitHub says who it is."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


def signed(key: RSAPrivateKey, claims: Mapping[str, Any]) -> str:
    """Return a JWT (RS256) with these claims."""
    unsigned = b".".join(
        [_encoded(msgspec.json.encode({"alg": "RS256", "typ": "JWT"})), _encoded(msgspec.json.encode(claims))]
    )
    signature = key.sign(unsigned, padding.PKCS1v15(), hashes.SHA256())
    return b".".join([unsigned, _encoded(signature)]).decode()


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
