"""Errors as RFC 7644 wants them."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from terracrew.errors import Conflict, TerracrewError
from terracrew.server.http import problem

MEDIA_TYPE = "application/scim+json"
ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimRefusal(TerracrewError):
    """A request that this interface refuses, with the word of RFC 7644 for the reason."""

    code = "scim"

    def __init__(self, status: int, message: str, scim_type: str = "") -> None:
        super().__init__(message)
        self.answered, self.scim_type = status, scim_type


def answer(body: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Response[bytes]:
    return Response(msgspec.json.encode(body), status_code=status, media_type=MEDIA_TYPE, headers=headers)


def refused(status: int, words: str, scim_type: str = "", headers: Mapping[str, str] = {}) -> Response[bytes]:
    body = {"schemas": [ERROR_SCHEMA], "status": str(status), "detail": words}
    return answer(body | ({"scimType": scim_type} if scim_type else {}), status, headers)


def from_error(request: Request[Any, Any, Any], error: TerracrewError) -> Response[bytes]:
    if isinstance(error, ScimRefusal):
        return refused(error.answered, error.message, error.scim_type)
    headers = dict(problem.from_error(request, error).headers)
    headers.pop("content-type", None)
    return refused(error.status, error.message, "uniqueness" if isinstance(error, Conflict) else "", headers)


def from_http(_: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    return refused(error.status_code, error.detail, "", error.headers or {})


def from_surprise(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    found = msgspec.json.decode(problem.from_surprise(request, error).content)
    return refused(HTTPStatus.INTERNAL_SERVER_ERROR, found["detail"])


HANDLERS: dict[int | type[Exception], Any] = {
    TerracrewError: from_error,
    HTTPException: from_http,
    Exception: from_surprise,
}
