"""`POST /connect/token` (OAuth 2 client credentials, RFC 6749) and the keys by which anybody can verify its tokens."""

import base64
import binascii
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_plus

from litestar import Response, get, post
from litestar.enums import RequestEncodingType

from terracrew.errors import Invalid, RateLimited, Removed, TerracrewError, Unauthenticated
from terracrew.server.api.access.context import AccessCall
from terracrew.server.http.client import address_of, identity_of
from terracrew.server.identity.oidc import cloud
from terracrew.server.identity.oidc.tokens import AccessToken

_NEVER_KEPT = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_NEXT = "next_secret_sha256"
_SHA256 = re.compile("[0-9a-f]{64}")
_FIELDS = ("grant_type", "client_id", "client_secret")


@post(
    "/connect/token",
    public=True,
    status_code=200,
    request_max_body_size=16_384,
    tags=["access"],
    summary="Get an access token",
)
async def token(request: AccessCall) -> Response[Any]:
    """Exchange a client id and secret, in the form or by HTTP Basic, for an access token that is valid for fifteen minutes.

    The client id is `<organization>:<client>`: a service account's id or path with one of its secrets, or a worker id with its
    worker token. With `next_secret_sha256`, the hash of a worker token that is to follow the one that is sent, a runner
    replaces its token: the first use of the new one ends the old one.
    """
    try:
        grant_type, client_id, client_secret = await _credentials(request)
        next_sha256 = await _next_secret(request)
    except Invalid as error:
        return _refused(400, "invalid_request", error)
    if grant_type != "client_credentials":
        return _refused(400, "unsupported_grant_type", Invalid("grant_type is client_credentials here"))
    try:
        granted = await identity_of(request).tokens.exchange(client_id, client_secret, address_of(request), next_sha256)
    except Removed as error:
        return _refused(401, "invalid_client", error)
    except Unauthenticated as error:
        return _refused(401, "invalid_client", error, {"WWW-Authenticate": 'Basic realm="terracrew"'})
    except RateLimited as error:
        wait = str(error.details["retry_after"])
        return _refused(429, "temporarily_unavailable", error, {"Retry-After": wait})
    return Response[AccessToken | dict[str, str]](granted, headers=_NEVER_KEPT)


@get("/.well-known/jwks.json", public=True, tags=["access"], summary="Read the public keys")
async def jwks(request: AccessCall) -> Response[dict[str, Any]]:
    """The public keys that sign access tokens and the tokens that jobs show to clouds."""
    return Response(identity_of(request).tokens.signing.jwks(), headers={"Cache-Control": "public, max-age=300"})


@get("/.well-known/openid-configuration", public=True, tags=["access"], summary="Read the OpenID configuration")
async def openid_configuration(request: AccessCall) -> Response[dict[str, Any]]:
    """What a cloud needs to know to trust the tokens of jobs."""
    found = cloud.configuration(identity_of(request).url)
    return Response(found, headers={"Cache-Control": "public, max-age=300"})


@get("/.well-known/terraform.json", public=True, tags=["access"], summary="Read the services of this host")
async def discovery(request: AccessCall) -> Response[dict[str, str]]:
    """The service discovery document of the engines: the services of this host, each with its address.

    This server has no registry of modules or providers, so it names only its own API.
    """
    found = {"terracrew.v1": f"{identity_of(request).url}/api/v1/"}
    return Response(found, headers={"Cache-Control": "public, max-age=300"})


async def _credentials(request: AccessCall) -> tuple[str, str, str]:
    if request.content_type[0] != RequestEncodingType.URL_ENCODED:
        raise Invalid("send application/x-www-form-urlencoded")
    form = await request.form()
    fields: dict[str, str] = {}
    for name in _FIELDS:
        values = form.getall(name, [])
        if len(values) > 1 or not all(isinstance(value, str) for value in values):
            raise Invalid(f"{name} is given more than once")
        if values and values[0]:
            fields[name] = values[0]
    authorization = request.headers.get("Authorization")
    if authorization is not None:
        if "client_secret" in fields:
            raise Invalid("credentials are given twice, in the form and in the header")
        fields["client_id"], fields["client_secret"] = _basic(authorization)
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise Invalid(f"{', '.join(missing)} is missing")
    return fields["grant_type"], fields["client_id"], fields["client_secret"]


async def _next_secret(request: AccessCall) -> str:
    values = (await request.form()).getall(_NEXT, [])
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


def _refused(
    status: int, error: str, why: TerracrewError, headers: dict[str, str] | None = None
) -> Response[dict[str, str | int]]:
    """Answer with an error of RFC 6749 that also has the members of a problem, so that a client reads all errors in one way."""
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": why.message, "code": why.code}
    body: dict[str, str | int] = {"error": error, "error_description": why.message, **problem}
    return Response(body, status_code=status, headers={**_NEVER_KEPT, **(headers or {})})
