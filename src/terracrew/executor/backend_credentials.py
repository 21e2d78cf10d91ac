"""What an engine authenticates with to the state backend of its executor, on loopback."""

import base64
import hashlib
import hmac

USER = "attempt"


def secret_of(hub_credential: str) -> str:
    """Derive this attempt's loopback secret from its credentials, so that a salvage can mask it, too."""
    return hmac.new(hub_credential.encode(), b"loopback state backend", hashlib.sha256).hexdigest()


def basic(secret: str) -> str:
    """Return the secret as the engine sends it in its `Authorization` header."""
    return base64.b64encode(f"{USER}:{secret}".encode()).decode()
