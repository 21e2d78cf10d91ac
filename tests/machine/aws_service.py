"""AWS for tests of sign-ins and answers: a real HTTP server whose STS verifies tokens as the real one does, and that answers
everything else as a test says.

It fetches the discovery document and the keys of the issuer over HTTP, and verifies signature, issuer, audience, subject and times.
Neither of the emulators does that.
"""

import base64
import json
import secrets
import threading
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape

import msgspec
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

ALGORITHMS = ["RS256", "ES256", "ES384"]
ACCOUNT = "111122223333"


class Refusal(Exception):
    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class Role(msgspec.Struct, kw_only=True):
    arn: str
    external_id: str = ""
    issuer: str = ""
    audience: str = ""
    subject: str = ""
    accepts_all: bool = False
    """Whether it has the mistake that it names neither an external id nor a subject."""

    def accepts(self, subject: str) -> bool:
        return self.accepts_all or self.subject == subject


class AwsService:
    def __init__(self) -> None:
        self.url = ""
        self.roles: dict[str, Role] = {}
        self.providers: set[str] = set()
        """The issuers that the account has an identity provider for."""
        self.now = time.time
        self.secret_keys: list[str] = []
        self.session_tokens: list[str] = []
        self.answers: defaultdict[str, list[Any]] = defaultdict(list)
        """What actions such as `RunTask` answer: the first entry of a list is taken until one is left. A Refusal is an error, and
        a text is sent as it is."""
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def add(self, role: Role) -> Role:
        self.roles[role.arn] = role
        if role.issuer:
            self.providers.add(role.issuer)
        return role

    def assume_role(self, asked: dict[str, Any]) -> dict[str, str]:
        role = self.roles.get(asked["RoleArn"])
        is_right = role is not None and bool(role.external_id) and asked.get("ExternalId") == role.external_id
        if role is None or not (is_right or role.accepts_all):
            raise Refusal(
                "AccessDenied",
                f"User: arn:aws:iam::{ACCOUNT}:user/server is not authorized to perform: sts:AssumeRole",
                403,
            )
        return self._credentials(asked)

    def assume_role_with_web_identity(self, asked: dict[str, Any]) -> dict[str, str]:
        token = asked["WebIdentityToken"]
        try:
            issuer = json.loads(_decoded(token.split(".")[1]))["iss"]
        except (IndexError, KeyError, ValueError):
            raise Refusal("InvalidIdentityToken", "The ID Token provided is not a valid JWT.") from None
        if issuer not in self.providers:
            raise Refusal("InvalidIdentityToken", f"No OpenIDConnect provider found in your account for {issuer}")
        try:
            keys = KeySet.import_key_set(_fetched(_fetched(issuer + "/.well-known/openid-configuration")["jwks_uri"]))
        except (OSError, KeyError, ValueError):
            raise Refusal(
                "InvalidIdentityToken",
                "Couldn't retrieve verification key from your identity provider, please reference docs",
            ) from None
        try:
            claims = jwt.decode(token, keys, algorithms=ALGORITHMS).claims
        except (JoseError, ValueError):
            raise Refusal("InvalidIdentityToken", "The signature of the token is not valid") from None
        if claims["exp"] < self.now():
            raise Refusal(
                "ExpiredTokenException", "Token expired: current date/time must be before the expiration date/time"
            )
        role = self.roles.get(asked["RoleArn"])
        if role is None or role.issuer != issuer or not role.accepts(str(claims.get("sub"))):
            raise Refusal("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity", 403)
        if role.audience not in (claims.get("aud"), *(claims["aud"] if isinstance(claims.get("aud"), list) else ())):
            raise Refusal("InvalidIdentityToken", "Incorrect token audience")
        return self._credentials(asked)

    def answer(self, action: str, asked: dict[str, Any]) -> Any:
        self.asked.append((action, asked))
        prepared = self.answers[action]
        found: Any = prepared.pop(0) if len(prepared) > 1 else prepared[0] if prepared else {}
        if isinstance(found, Refusal):
            raise found
        return found

    def _credentials(self, asked: dict[str, Any]) -> dict[str, str]:
        ends_at = time.time() + int(asked["DurationSeconds"])
        self.secret_keys.append("secret-" + secrets.token_hex(16))
        self.session_tokens.append("session-" + secrets.token_hex(32))
        return {
            "AccessKeyId": f"ASIA{len(self.secret_keys):016}",
            "SecretAccessKey": self.secret_keys[-1],
            "SessionToken": self.session_tokens[-1],
            "Expiration": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends_at)),
        }


@contextmanager
def running() -> Generator[AwsService]:
    service = AwsService()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            target = self.headers.get("X-Amz-Target", "")
            is_query = not target
            asked: dict[str, Any] = dict(urllib.parse.parse_qsl(body.decode())) if is_query else json.loads(body)
            action = asked["Action"] if is_query else target.rpartition(".")[2]
            try:
                found = (
                    self._sign_in(action, asked) if action.startswith("AssumeRole") else service.answer(action, asked)
                )
                text = (
                    found if isinstance(found, str) else _xml_answer(action, found) if is_query else json.dumps(found)
                )
                self._send(200, text)
            except Refusal as error:
                written = {"__type": error.code, "message": error.message}
                self._send(error.status, _xml_error(error) if is_query else json.dumps(written))

        def _sign_in(self, action: str, asked: dict[str, Any]) -> dict[str, Any]:
            is_web = action == "AssumeRoleWithWebIdentity"
            service.asked.append((action, {**asked, "is_signed": "Authorization" in self.headers}))
            return {"Credentials": (service.assume_role_with_web_identity if is_web else service.assume_role)(asked)}

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def _fetched(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:
        return json.load(answer)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _xml(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(f"<{name}>{_xml(each)}</{name}>" for name, each in value.items())  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return "".join(f"<member>{_xml(each)}</member>" for each in value)  # pyright: ignore[reportUnknownVariableType]
    return escape(str(value))


def _xml_answer(action: str, found: Any) -> str:
    return f"<{action}Response><{action}Result>{_xml(found)}</{action}Result></{action}Response>"


def _xml_error(error: Refusal) -> str:
    words = f"<Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
    return f"<ErrorResponse><Error><Type>Sender</Type>{words}</Error></ErrorResponse>"
