"""What a command line sends to the page that asks a person, and the code that it gets: OAuth 2.0 with PKCE (RFC 6749, 7636, 8252)."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from terracrew.api.access import ApiToken
from terracrew.errors import Invalid

MIN_PORT, MAX_PORT = 10000, 10010
"""The ports of this machine's loopback address on which the command line of an engine waits for its code."""
MAX_PORT_NUMBER = 65535
CODE_LIFETIME_SECONDS = 90.0
DEFAULT_DAYS = 90
MAX_STATE_CHARACTERS = 1000
MAX_MACHINE_CHARACTERS = 80
MACHINE = "machine"
"""The parameter by which our own command line says on which machine it runs, and as which user."""
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
_STATE = re.compile(r"[\x20-\x7e]+")
_FIXED = {"response_type": "code", "code_challenge_method": "S256"}
FIELDS = ("client_id", *_FIXED, "redirect_uri", "state", "code_challenge", MACHINE)
"""The parameters of a request. Others, such as `scope`, mean nothing here."""


class Client(msgspec.Struct, frozen=True):
    """A command line that people log in with. It has no secret: a code is bound to the process that asked by its challenge."""

    id: str
    program: str
    commands: tuple[str, ...]
    """What a person types to log in with it."""
    host: str
    path: str
    ports: tuple[int, int]
    """Where it waits for the browser: on a port of the loopback address of its own machine."""
    is_engine: bool

    def has_made(self, token: ApiToken) -> bool:
        """Return whether a login with this command line has got the token. A new login may replace it."""
        return token.is_engine_login if self.is_engine else token.is_cli_login

    @property
    def instruction(self) -> str:
        """The commands, for a sentence."""
        return " or ".join(f"`{each}`" for each in self.commands)

    def port_of(self, redirect_uri: str) -> int | None:
        """Return the port of an address to which the browser may bring the answer; None for every other address."""
        found = re.fullmatch(rf"http://{re.escape(self.host)}:([1-9][0-9]{{3,4}}){re.escape(self.path)}", redirect_uri)
        return int(found[1]) if found and self.ports[0] <= int(found[1]) <= self.ports[1] else None


ENGINE = Client(
    "terraform-cli",
    "OpenTofu or Terraform",
    ("tofu login", "terraform login"),
    "localhost",
    "/login",
    (MIN_PORT, MAX_PORT),
    is_engine=True,
)
TERRACREW = Client(
    "terracrew-cli",
    "The command line of Terracrew",
    ("terracrew login",),
    "127.0.0.1",
    "/callback",
    (1024, MAX_PORT_NUMBER),
    is_engine=False,
)
CLIENTS = {each.id: each for each in (ENGINE, TERRACREW)}


class LoginRequest(msgspec.Struct, frozen=True):
    """A request that is known to come back to a command line on the person's own machine, and to nobody else."""

    client: Client
    redirect_uri: str
    port: int
    state: str
    challenge: str
    machine: str = ""
    """The name of the machine, from our own command line only. It is what that program says: nothing proves it."""

    @property
    def origin(self) -> str:
        """The origin of the address at which the command line waits."""
        return f"http://{self.client.host}:{self.port}"

    @property
    def fields(self) -> dict[str, str]:
        """What the form of the page sends along, so that the answer to it is checked in the same way."""
        own = {"redirect_uri": self.redirect_uri, "state": self.state, "code_challenge": self.challenge}
        return {"client_id": self.client.id} | _FIXED | own | ({MACHINE: self.machine} if self.machine else {})

    def answer_url(self, **answer: str) -> str:
        """Return where the browser brings the answer."""
        return f"{self.redirect_uri}?{urlencode({**answer, 'state': self.state})}"


class TerminalLogin(msgspec.Struct, frozen=True):
    """A row: what a person allowed, and what became of its code."""

    code_sha256: str
    client_id: str
    user_id: str
    session_id: str
    redirect_uri: str
    challenge: str
    name: str
    days: int | None
    created_at: float
    expires_at: float
    used_at: float | None = None
    token_id: str | None = None


class DeviceLogin(msgspec.Struct, frozen=True):
    """A row: a command line that waits for a person who answers on another machine, and what became of it."""

    device_code_sha256: str
    user_code_sha256: str
    machine: str
    address: str
    """From where the command line asked: its address, or its network for IPv6."""
    interval_seconds: float
    created_at: float
    expires_at: float
    polled_at: float | None = None
    is_allowed: bool | None = None
    """The answer; None while nobody has answered."""
    user_id: str | None = None
    session_id: str | None = None
    name: str | None = None
    days: int | None = None
    used_at: float | None = None
    token_id: str | None = None


def parse(given: Mapping[str, Sequence[str]]) -> LoginRequest:
    """Check the parameters of a request, each with all its values. Nothing is sent back to an address that is refused here."""
    values: dict[str, str] = {}
    for name in FIELDS:
        found = given.get(name, ())
        if len(found) != 1 and not (name == MACHINE and not found):
            raise _refusal(f"{name} is given {len(found)} times instead of once")
        values[name] = found[0] if found else ""
    client = CLIENTS.get(values["client_id"])
    if client is None:
        raise _refusal(f"client_id is not {' or '.join(CLIENTS)}")
    for name, expected in _FIXED.items():
        if values[name] != expected:
            raise _refusal(f"{name} is not {expected}", client)
    port = client.port_of(values["redirect_uri"])
    if port is None:
        first, last = client.ports
        address = f"http://{client.host}:PORT{client.path}"
        raise _refusal(f"redirect_uri is not {address} with a port from {first} to {last}", client)
    if not _CHALLENGE.fullmatch(values["code_challenge"]):
        raise _refusal("code_challenge is not a SHA-256 in base64url", client)
    if len(values["state"]) > MAX_STATE_CHARACTERS or not _STATE.fullmatch(values["state"]):
        raise _refusal(f"state has characters that cannot be printed, or more than {MAX_STATE_CHARACTERS:,}", client)
    machine = "" if client.is_engine else machine_name(values[MACHINE])
    return LoginRequest(client, values["redirect_uri"], port, values["state"], values["code_challenge"], machine)


def machine_name(text: str) -> str:
    """Return the name that a machine gives itself, if people can be shown it."""
    if not 1 <= len(text) <= MAX_MACHINE_CHARACTERS or not text.isprintable() or text != text.strip():
        raise _refusal(
            f"{MACHINE} is not a name of 1 to {MAX_MACHINE_CHARACTERS} characters, all of them printable", TERRACREW
        )
    return text


def token_name(machine: str) -> str:
    """Return how the token of our own command line on a machine is called, unless the person chooses another name."""
    return f"terracrew on {machine}"


def is_verifier(verifier: str, challenge: str) -> bool:
    """Return whether this is the verifier whose hash is the challenge."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    return hmac.compare_digest(made, challenge)


def _refusal(why: str, client: Client = ENGINE) -> Invalid:
    return Invalid(f"this is not a login of a command line: {why}. Run {client.instruction} again")
