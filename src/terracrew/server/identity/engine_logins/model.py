"""What a command line sends to the page that asks a person, and the code that it gets: OAuth 2.0 with PKCE (RFC 6749, 7636, 8252)."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from terracrew.errors import Invalid

CLIENT_ID = "terraform-cli"
"""The id of every command line. It has no secret: the code is bound to the process that asked by its challenge."""
MIN_PORT, MAX_PORT = 10000, 10010
"""The ports of this machine's loopback address on which a command line waits for its code."""
CODE_LIFETIME_SECONDS = 90.0
DEFAULT_DAYS = 90
MAX_STATE_CHARACTERS = 1000
_REDIRECT_URI = re.compile(r"http://localhost:([1-9][0-9]{3,4})/login")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_STATE = re.compile(r"[\x20-\x7e]+")
_FIXED = {"client_id": CLIENT_ID, "response_type": "code", "code_challenge_method": "S256"}
FIELDS = (*_FIXED, "redirect_uri", "state", "code_challenge")
"""The parameters of a request. Others, such as `scope`, mean nothing here."""


class LoginRequest(msgspec.Struct, frozen=True):
    """A request that is known to come back to a command line on the person's own machine, and to nobody else."""

    redirect_uri: str
    port: int
    state: str
    challenge: str

    @property
    def fields(self) -> dict[str, str]:
        """What the form of the page sends along, so that the answer to it is checked in the same way."""
        own = {"redirect_uri": self.redirect_uri, "state": self.state, "code_challenge": self.challenge}
        return _FIXED | own

    def answer_url(self, **answer: str) -> str:
        """Return where the browser brings the answer."""
        return f"{self.redirect_uri}?{urlencode({**answer, 'state': self.state})}"


class EngineLogin(msgspec.Struct, frozen=True):
    """A row: what a person allowed, and what became of its code."""

    user_id: str
    session_id: str
    redirect_uri: str
    challenge: str
    name: str
    days: int | None
    expires_at: float
    used_at: float | None
    token_id: str | None


def parse(given: Mapping[str, Sequence[str]]) -> LoginRequest:
    """Check the parameters of a request, each with all its values. Nothing is sent back to an address that is refused here."""
    values: dict[str, str] = {}
    for name in FIELDS:
        found = given.get(name, ())
        if len(found) != 1:
            raise _refusal(f"{name} is given {len(found)} times instead of once")
        values[name] = found[0]
    for name, expected in _FIXED.items():
        if values[name] != expected:
            raise _refusal(f"{name} is not {expected}")
    port = _REDIRECT_URI.fullmatch(values["redirect_uri"])
    if port is None or not MIN_PORT <= int(port[1]) <= MAX_PORT:
        raise _refusal(f"redirect_uri is not http://localhost:PORT/login with a port from {MIN_PORT} to {MAX_PORT}")
    if not _CHALLENGE.fullmatch(values["code_challenge"]):
        raise _refusal("code_challenge is not a SHA-256 in base64url")
    if len(values["state"]) > MAX_STATE_CHARACTERS or not _STATE.fullmatch(values["state"]):
        raise _refusal(f"state has characters that cannot be printed, or more than {MAX_STATE_CHARACTERS:,}")
    return LoginRequest(values["redirect_uri"], int(port[1]), values["state"], values["code_challenge"])


def is_verifier(verifier: str, challenge: str) -> bool:
    """Return whether this is the verifier whose hash is the challenge."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return hmac.compare_digest(made, challenge)


def _refusal(why: str) -> Invalid:
    return Invalid(f"this is not a login of OpenTofu or Terraform: {why}. Run `tofu login` or `terraform login` again")
