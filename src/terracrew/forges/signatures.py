"""Checks that a delivery was signed with the secret of its hook."""

import hashlib
import hmac

from terracrew.forges.contract import WrongSignature


def require_hmac(secret: str, body: bytes, given: str) -> None:
    """Raise WrongSignature unless `given` is the HMAC-SHA256 of the body, with or without the name of the algorithm before it."""
    expected = hmac.digest(secret.encode(), body, hashlib.sha256).hex()
    if not secret or not hmac.compare_digest(expected.encode(), given.removeprefix("sha256=").encode()):
        raise WrongSignature(
            "the delivery was not signed with the secret of this hook: its hook has another secret, or somebody else sent it"
        )


def require_token(secret: str, given: str) -> None:
    """Raise WrongSignature unless the delivery names the secret itself."""
    if not secret or not hmac.compare_digest(secret.encode(), given.encode()):
        raise WrongSignature(
            "the delivery does not have the secret token of this hook: its hook has another one, or somebody else sent it"
        )
