"""Asks a server for API tokens by OAuth 2.0, as a command line that has no secret: with a code from a browser, or as a device."""

import base64
import contextlib
import hashlib
import secrets
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from urllib3.exceptions import HTTPError

from terracrew import errors
from terracrew.client import address, problems, transport

CLIENT_ID = "terracrew-cli"
DISCOVERY = "/.well-known/terraform.json"
SERVICE = "terracrew-login.v1"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
TIMEOUT_SECONDS = 30.0
VERIFIER_BYTES = 48
STATE_BYTES = 24
T = TypeVar("T")


class LoginAddresses(msgspec.Struct, frozen=True):
    """Where a server has what a login needs: its page for browsers, where devices begin, and where codes are exchanged."""

    authz: str
    device: str
    token: str


class GivenToken(msgspec.Struct, frozen=True):
    access_token: str
    token_id: str

    def __repr__(self) -> str:
        return f"GivenToken({self.token_id!r})"


class DeviceCode(msgspec.Struct, frozen=True):
    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    interval: float

    def __repr__(self) -> str:
        return f"DeviceCode({self.verification_uri!r})"


class LoginRefused(errors.TerracrewError):
    """The server gives no token. `reason` is the word that RFC 6749 and 8628 have for it."""

    code, exit_code = "login_refused", 3

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class _LoginRefusal(msgspec.Struct, frozen=True):
    error: str
    error_description: str
    code: str = ""


class _Services(msgspec.Struct, frozen=True, rename={"login": SERVICE}):
    login: LoginAddresses | None = None


class BrowserRequest(msgspec.Struct, frozen=True):
    """What one login in a browser is bound to: the state returns with the answer, and the verifier stays in this process."""

    redirect_uri: str
    state: str
    verifier: str

    def __repr__(self) -> str:
        return f"BrowserRequest({self.redirect_uri!r})"


def new_request(redirect_uri: str) -> BrowserRequest:
    return BrowserRequest(redirect_uri, secrets.token_urlsafe(STATE_BYTES), secrets.token_urlsafe(VERIFIER_BYTES))


class Logins:
    """The addresses of one server at which a login asks for a token."""

    def __init__(self, url: str) -> None:
        self.url = address.checked(url)
        self._pool = transport.pool(self.url)
        self._addresses: LoginAddresses | None = None

    def find(self) -> None:
        """Ask the server where logins are. Only the paths count, so that nothing is sent to another server than this one."""
        try:
            response = self._request("GET", DISCOVERY, None)
            found = msgspec.json.decode(response.data, type=_Services).login if response.status == 200 else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = None
        if found is None:
            raise errors.NotFound(
                f"{self.url} does not offer logins in a browser: it is older than this command line, or not a Terracrew server",
                hint="make a token with `terracrew token create` elsewhere, and give it to `terracrew login --token-stdin`",
            )
        self._addresses = found

    def page(self, request: BrowserRequest, machine: str) -> str:
        """Return the address that the browser opens."""
        digest = hashlib.sha256(request.verifier.encode()).digest()
        query = {
            "client_id": CLIENT_ID,
            "response_type": "code",
            "code_challenge_method": "S256",
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "redirect_uri": request.redirect_uri,
            "state": request.state,
            "machine": machine,
        }
        return f"{self.url}{self._path('authz')}?{urlencode(query)}"

    def exchange(self, request: BrowserRequest, code: str) -> GivenToken:
        form = {
            "grant_type": "authorization_code",
            "client_id": CLIENT_ID,
            "code": code,
            "code_verifier": request.verifier,
            "redirect_uri": request.redirect_uri,
        }
        return self._post("token", form, GivenToken)

    def begin_device(self, machine: str) -> DeviceCode:
        found = self._post("device", {"client_id": CLIENT_ID, "machine": machine}, DeviceCode)
        if address.is_loopback(found.verification_uri) and not address.is_loopback(self.url):
            # The server does not know the address by which others reach it.
            path = urlsplit(found.verification_uri).path
            return msgspec.structs.replace(found, verification_uri=f"{self.url}{path}")
        return found

    def poll(self, device_code: str) -> GivenToken:
        """Ask once whether the person has answered. Raises LoginRefused with `authorization_pending` if not."""
        form = {"grant_type": DEVICE_GRANT, "client_id": CLIENT_ID, "device_code": device_code}
        return self._post("token", form, GivenToken)

    def _path(self, name: str) -> str:
        if self._addresses is None:
            self.find()
        assert self._addresses is not None
        found: str = getattr(self._addresses, name)
        return urlsplit(found).path

    def _post(self, name: str, form: dict[str, str], kind: type[T]) -> T:
        path = self._path(name)
        response = self._request("POST", path, urlencode(form))
        asked = f"POST {self.url}{path}"
        if response.status != 200:
            raise _refusal(response, asked)
        try:
            return msgspec.json.decode(response.data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise problems.foreign(response.status, response.headers, asked) from error

    def _request(self, method: str, path: str, form: str | None) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": "application/json"}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            return self._pool.request(
                method,
                f"{self.url}{path}",
                body=form,
                headers=headers,
                timeout=TIMEOUT_SECONDS,
                retries=False,  # this also disables redirects, so that a code is sent to no other server
            )
        except (HTTPError, OSError) as error:
            raise errors.Unreachable(f"{self.url} cannot be reached: {error}") from error


def _refusal(response: urllib3.BaseHTTPResponse, asked: str) -> errors.TerracrewError:
    """Return the error that the server sent, as problem+json or as the JSON of RFC 6749."""
    if error := problems.own(response.headers, response.data):
        return error
    with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
        refusal = msgspec.json.decode(response.data, type=_LoginRefusal)
        if response.status == errors.RateLimited.status:
            return errors.RateLimited(refusal.error_description, **problems.retry_after(response.headers))
        return LoginRefused(refusal.error_description, refusal.error)
    return problems.foreign(response.status, response.headers, asked)
