"""`POST /connect/token` and the keys by which anybody can verify its tokens.

It knows the client credentials and authorization codes of RFC 6749, and tokens of other issuers by RFC 8693 (token exchange) and
RFC 7523 (JWT bearer).
"""

import base64
import binascii
import re
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Any, Literal
from urllib.parse import unquote_plus

import msgspec
from litestar import Response, get, post
from litestar.enums import RequestEncodingType

from terracrew.api.access import ApiToken
from terracrew.errors import Invalid, RateLimited, Removed, TerracrewError, Unauthenticated
from terracrew.server.api.context import AccessCall
from terracrew.server.http import engine_services
from terracrew.server.http.request import address_of, identity_of
from terracrew.server.identity.oidc import cloud
from terracrew.server.identity.oidc.tokens import AccessToken
from terracrew.server.identity.terminal_logins import devices, model
from terracrew.server.identity.terminal_logins import service as terminal_logins
from terracrew.server.secrets import credentials

_NEVER_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_NEXT = "next_secret_sha256"
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS = ("grant_type", "client_id", "client_secret")
AUTHORIZATION_CODE = "authorization_code"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 (a word of the standard)
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCESS_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a word of the standard)
_SUBJECT_TYPES = ("urn:ietf:params:oauth:token-type:jwt", "urn:ietf:params:oauth:token-type:id_token")
_FEDERATED_FIELDS = (
    "client_id",
    "subject_token",
    "subject_token_type",
    "assertion",
    "requested_token_type",
    "client_secret",
    "actor_token",
)


_NOT_YET: dict[devices.Pending, str] = {
    "authorization_pending": "nobody has answered yet: ask again after the interval",
    "slow_down": "this was asked too early: the interval is five seconds longer from now on",
    "access_denied": "the login was denied",
    "expired_token": "the code has expired: log in again",
}
_CODE_FIELDS = ("code", "code_verifier", "redirect_uri", "client_id")


Form = dict[str, list[Any]]
"""The fields of a form, each with all its values."""


class TerminalToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a command line: an API token, which it stores."""

    access_token: str
    token_type: Literal["bearer"]
    expires_in: int | None = None
    """After how many seconds it expires; left out if it does not."""
    token_id: str | None = None
    """The id of the token, by which it is revoked. Command lines of engines do not know it, and get none."""

    def __repr__(self) -> str:
        return "TerminalToken(…)"


class DeviceAuthorization(msgspec.Struct, frozen=True):
    """The answer of RFC 8628 to a command line that cannot open a browser."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int

    def __repr__(self) -> str:
        return "DeviceAuthorization(…)"


class ExchangedAccessToken(AccessToken, frozen=True):
    """The answer of RFC 8693."""

    issued_token_type: str = ACCESS_TOKEN_TYPE


@post(
    engine_services.TOKEN,
    public=True,
    status_code=200,
    request_max_body_size=16_384,
    tags=["access"],
    summary="Get an access token",
)
async def token(request: AccessCall) -> Response[Any]:
    """Exchange a client id and secret, in the form or by HTTP Basic, for an access token that is valid for fifteen minutes.

    The client id is `<organization>:<client>`: a service account's id or path with one of its secrets, or a worker id with its
    worker token. The organization and its colon may be left out where the secret or the id shows whose it is.
    With `next_secret_sha256`, the hash of a worker token that is to follow the one that is sent, a runner
    replaces its token: the first use of the new one ends the old one.

    A service account with trust policies needs no secret: send its client id and a token of a trusted issuer as `subject_token`
    (grant type `urn:ietf:params:oauth:grant-type:token-exchange`) or as `assertion` (`urn:ietf:params:oauth:grant-type:jwt-bearer`).

    `terracrew login`, `tofu login` and `terraform login` exchange the code that a person has allowed (grant type
    `authorization_code`, with PKCE) for an API token of that person. `terracrew login` on a machine without a browser exchanges a
    device code (grant type `urn:ietf:params:oauth:grant-type:device_code`), which `POST /connect/device` gives.
    """
    try:
        form = await _form(request)
        if (grant := _field(form, "grant_type")) == AUTHORIZATION_CODE:
            return await _terminal_token(request, form)
        if grant == DEVICE_CODE:
            return await _device_token(request, form)
        if grant in (TOKEN_EXCHANGE, JWT_BEARER):
            return await _federated(request, form, grant)
        grant_type, client_id, client_secret = _credentials(request, form)
        next_sha256 = _next_secret(form)
    except Invalid as error:
        return _refused(400, "invalid_request", error)
    if grant_type != "client_credentials":
        words = f"grant_type is client_credentials, {AUTHORIZATION_CODE}, {DEVICE_CODE}, {TOKEN_EXCHANGE} or {JWT_BEARER} here"
        return _refused(400, "unsupported_grant_type", Invalid(words))
    address = address_of(request)
    return await _answer(identity_of(request).tokens.exchange(client_id, client_secret, address, next_sha256))


async def _terminal_token(request: AccessCall, form: Form) -> Response[Any]:
    given = [_field(form, name) for name in _CODE_FIELDS]
    if missing := [name for name, value in zip(_CODE_FIELDS, given, strict=True) if not value]:
        raise Invalid(f"{', '.join(missing)} is missing")
    code, verifier, redirect_uri, client_id = given
    try:
        token, secret = await terminal_logins.redeem(
            identity_of(request), code, verifier, redirect_uri, client_id, address_of(request)
        )
    except (Invalid, Unauthenticated) as error:
        return _refused(400, "invalid_grant", error)
    except RateLimited as error:
        return _limited(error)
    return _made(token, secret)


def _made(token: ApiToken, secret: credentials.Secret) -> Response[Any]:
    seconds = None if token.expires_at is None else round((token.expires_at - token.created_at).total_seconds())
    token_id = token.id if token.is_cli_login else None
    return Response(TerminalToken(secret.text, "bearer", seconds, token_id), headers=_NEVER_KEPT)


@post(
    engine_services.DEVICE,
    public=True,
    status_code=200,
    request_max_body_size=16_384,
    tags=["access"],
    summary="Begin the login of a machine without a browser",
)
async def device(request: AccessCall) -> Response[Any]:
    """Begin a login by RFC 8628 for the client `terracrew-cli` on the `machine` of this name.

    A person who is logged in types `user_code` at `verification_uri`. In the meantime, the client asks `POST /connect/token` with
    `device_code`, every `interval` seconds.
    """
    try:
        form = await _form(request)
        if _field(form, "client_id") != model.TERRACREW.id:
            raise Invalid(f"client_id is not {model.TERRACREW.id}")
        made = await devices.begin(
            identity_of(request), model.machine_name(_field(form, model.MACHINE)), address_of(request)
        )
    except Invalid as error:
        return _refused(400, "invalid_request", error)
    except RateLimited as error:
        return _limited(error)
    answer = DeviceAuthorization(
        made.device_code.text,
        devices.format_code(made.user_code),
        identity_of(request).url + engine_services.DEVICE_PAGE,
        round(devices.LIFETIME_SECONDS),
        round(devices.INTERVAL_SECONDS),
    )
    return Response(answer, headers=_NEVER_KEPT)


async def _device_token(request: AccessCall, form: Form) -> Response[Any]:
    code, client_id = _field(form, "device_code"), _field(form, "client_id")
    if not code or not client_id:
        raise Invalid("device_code or client_id is missing")
    try:
        found = await devices.redeem(identity_of(request), code, client_id, address_of(request))
    except (Invalid, Unauthenticated) as error:
        return _refused(400, "invalid_grant", error)
    except RateLimited as error:
        return _limited(error)
    if isinstance(found, str):
        return _refused(400, found, Invalid(_NOT_YET[found]))
    return _made(*found)


async def _federated(request: AccessCall, form: Form, grant_type: str) -> Response[Any]:
    given = {name: value for name in _FEDERATED_FIELDS if (value := _field(form, name))}
    token_field = "subject_token" if grant_type == TOKEN_EXCHANGE else "assertion"
    for name in ("client_secret", "actor_token"):
        if name in given:
            raise Invalid(f"{name} is not used with a token of another issuer: leave it out")
    missing = [name for name in ("client_id", token_field) if name not in given]
    if missing:
        raise Invalid(f"{', '.join(missing)} is missing")
    if grant_type == TOKEN_EXCHANGE and given.get("subject_token_type") not in _SUBJECT_TYPES:
        raise Invalid(f"subject_token_type is {' or '.join(_SUBJECT_TYPES)}")
    if given.get("requested_token_type", ACCESS_TOKEN_TYPE) != ACCESS_TOKEN_TYPE:
        raise Invalid(f"requested_token_type is {ACCESS_TOKEN_TYPE}, or is left out")
    federation = identity_of(request).federation
    return await _answer(federation.exchange(given["client_id"], given[token_field], address_of(request)), grant_type)


async def _answer(exchange: Awaitable[AccessToken], grant_type: str = "") -> Response[Any]:
    try:
        granted = await exchange
    except Removed as error:
        return _refused(401, "invalid_client", error)
    except Unauthenticated as error:
        return _refused(401, "invalid_client", error, {"WWW-Authenticate": 'Basic realm="terracrew"'})
    except RateLimited as error:
        return _limited(error)
    if grant_type == TOKEN_EXCHANGE:
        granted = ExchangedAccessToken(granted.access_token, granted.expires_in)
    return Response[AccessToken | dict[str, str]](granted, headers=_NEVER_KEPT)


@get("/.well-known/jwks.json", public=True, tags=["access"], summary="Read the public keys")
async def jwks(request: AccessCall) -> Response[dict[str, Any]]:
    """The public keys that sign access tokens and the tokens that jobs show to clouds."""
    return Response(identity_of(request).tokens.signing.jwks(), headers={"Cache-Control": "public, max-age=300"})


@get("/.well-known/openid-configuration", public=True, tags=["access"], summary="Read the OpenID configuration")
async def openid_configuration(request: AccessCall) -> Response[dict[str, Any]]:
    """What a cloud needs to know to trust the tokens of jobs."""
    found = cloud.configuration(identity_of(request).issuer.url)
    return Response(found, headers={"Cache-Control": "public, max-age=300"})


@get(engine_services.DISCOVERY, public=True, tags=["access"], summary="Read the services of this host")
async def discovery(request: AccessCall) -> Response[dict[str, Any]]:
    """The service discovery document of the engines: the services of this host, each with its address.

    This server has no registry of providers, so it names none.
    """
    found = engine_services.services(identity_of(request).url)
    return Response(found, headers={"Cache-Control": "public, max-age=300"})


async def _form(request: AccessCall) -> Form:
    if request.content_type[0] != RequestEncodingType.URL_ENCODED:
        raise Invalid("send application/x-www-form-urlencoded")
    return (await request.form()).dict()


def _field(form: Form, name: str) -> str:
    """Return a field of the form; an empty text if it is missing."""
    values = form.get(name, [])
    if len(values) > 1 or not all(isinstance(value, str) for value in values):
        raise Invalid(f"{name} is given more than once")
    return values[0] if values else ""


def _credentials(request: AccessCall, form: Form) -> tuple[str, str, str]:
    fields = {name: value for name in _FIELDS if (value := _field(form, name))}
    authorization = request.headers.get("Authorization")
    if authorization is not None:
        if "client_secret" in fields:
            raise Invalid("credentials are given twice, in the form and in the header")
        fields["client_id"], fields["client_secret"] = _basic(authorization)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise Invalid(f"{', '.join(missing)} is missing")
    return fields["grant_type"], fields["client_id"], fields["client_secret"]


def _next_secret(form: Form) -> str:
    values = form.get(_NEXT, [])
    if not values:
        return ""
    if len(values) > 1 or not isinstance(values[0], str) or not _SHA256.fullmatch(values[0]):
        raise Invalid(f"{_NEXT} is one SHA-256 in hexadecimal")
    return values[0]


def _basic(authorization: str) -> tuple[str, str]:
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        decoded = base64.b64decode(encoded.strip(), validate=True).decode()
    except (ValueError, binascii.Error):
        raise Invalid("the Authorization header is not HTTP Basic") from None
    # The client id has a colon of its own, which many clients do not escape; a secret of ours has none.
    client_id, _, secret = decoded.rpartition(":")
    return unquote_plus(client_id), unquote_plus(secret)


def _limited(error: RateLimited) -> Response[dict[str, str | int]]:
    return _refused(429, "temporarily_unavailable", error, {"Retry-After": str(error.details["retry_after"])})


def _refused(
    status: int, error: str, why: TerracrewError, headers: dict[str, str] | None = None
) -> Response[dict[str, str | int]]:
    """Answer with an error of RFC 6749 that also has the members of a problem, so that a client reads all errors in one way."""
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": why.message, "code": why.code}
    body: dict[str, str | int] = {"error": error, "error_description": why.message, **problem}
    return Response(body, status_code=status, headers={**_NEVER_KEPT, **(headers or {})})
