"""Turns errors into answers: problem+json (RFC 9457) with the stable code of the error's class."""

import errno
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from uuid_utils import uuid7

from terracrew.client.problems import MEDIA_TYPE
from terracrew.errors import (
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    TerracrewError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from terracrew.server.http import choices

RETRY_AFTER_SECONDS = 1.0
"""The default wait of a client after a 503."""
_CODES = {error.status: error.code for error in (Invalid, Unauthenticated, Forbidden, NotFound, TooLarge, RateLimited)}
_WENT_AWAY = "client disconnected prematurely"
"""The framework's message for a client that disconnects before its body has arrived. The framework treats it as a server error."""
_FULL_DISK = frozenset({errno.ENOSPC, errno.EDQUOT})
_log = logging.getLogger("terracrew.server")


def answer(
    status: int, code: str, detail: str, details: Mapping[str, Any] = {}, headers: Mapping[str, str] = {}
) -> Response[bytes]:
    title = HTTPStatus(status).phrase
    members = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code}
    return Response(
        msgspec.json.encode({**details, **members}, enc_hook=str),
        status_code=status,
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def from_error(_: Request[Any, Any, Any], error: TerracrewError) -> Response[bytes]:
    headers: dict[str, str] = {}
    if error.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="terracrew"'
    if error.status == HTTPStatus.SERVICE_UNAVAILABLE or "retry_after" in error.details:
        headers["Retry-After"] = str(int(error.details.get("retry_after", RETRY_AFTER_SECONDS)) + 1)
    if error.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        _log.warning("answered %s: %s", error.status, error.message)
    return answer(error.status, error.code, error.message, error.details, headers)


def from_http(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    """Answer a request that the framework itself refused."""
    if error.detail == _WENT_AWAY:
        # This is not a refusal: a client that still gets this answer may send its request again.
        return from_error(request, Unavailable("the body did not arrive whole"))
    if error.status_code == HTTPStatus.INTERNAL_SERVER_ERROR:
        return from_surprise(request, error)
    if isinstance(error, ValidationException):
        return from_error(request, _invalid(request, error))
    detail = {
        HTTPStatus.NOT_FOUND: f"there is nothing at {request.scope['path']}",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.scope['method']} is not possible here: see the Allow header",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "the body is larger than this address takes",
    }.get(HTTPStatus(error.status_code), error.detail)
    code = _CODES.get(error.status_code, HTTPStatus(error.status_code).name.lower())
    return answer(error.status_code, code, detail, headers=error.headers or {})


def from_surprise(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Answer an unexpected error. The client gets a number to quote, and the log gets the traceback under this number."""
    if isinstance(error, OSError) and error.errno in _FULL_DISK:
        return from_error(request, Unavailable("the disk of the server is full"))
    number = uuid7().hex
    _log.error("error %s in %s %s", number, request.scope["method"], _loggable_path(request), exc_info=error)
    detail = f"something went wrong on the server; its log has it under {number}"
    return answer(500, "internal", detail, {"error": number})


def _loggable_path(request: Request[Any, Any, Any]) -> str:
    """Return the path for the log. An address that is itself a credential is not written there."""
    path = request.scope["path"]
    sealed = request.path_params.get("sealed") if "path_params" in request.scope else None
    return path.replace(str(sealed), "{sealed}") if sealed else path


def _invalid(request: Request[Any, Any, Any], error: ValidationException) -> Invalid:
    found: list[Any] = error.extra if isinstance(error.extra, list) else []
    errors = [{"field": str(each.get("key", "")), "message": str(each.get("message", ""))} for each in found]
    for each in errors:
        if each["message"] == repr(each["field"]):  # this is how the framework reports a missing value
            each["message"] = "it is missing"
        if taken := request.route_handler.parsed_fn_signature.parameters.get(each["field"]):
            each["message"] = choices.explained(each["message"], taken.annotation, "")
    if any(each["field"] == "data" for each in errors):  # `Call.json` reports what is wrong with a body that exists
        return Invalid("a JSON body is expected here, and there is none")
    words = "; ".join(f"{each['field']}: {each['message']}" if each["field"] else each["message"] for each in errors)
    field = errors[0]["field"] if len(errors) == 1 else None
    return Invalid(words or error.detail, field=field, errors=errors)


HANDLERS: dict[int | type[Exception], Any] = {
    TerracrewError: from_error,
    HTTPException: from_http,
    Exception: from_surprise,
}
