"""Turns a problem+json answer into the same error that the server raised."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from terracrew import errors

_KNOWN = frozenset({"type", "title", "status", "detail", "code", "instance", "message", "self"})
_BY_STATUS: dict[int, type[errors.TerracrewError]] = {
    400: errors.Invalid,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.Invalid,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.Invalid,
    426: errors.Incompatible,
    429: errors.RateLimited,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.Unavailable,
}


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> errors.TerracrewError:
    """The error that an answer stands for; where something else than our server answered, the nearest one."""
    problem = _problem(headers, body)
    code, detail = problem.get("code"), problem.get("detail")
    kind = errors.tree().get(code) if isinstance(code, str) else None
    details = {name: value for name, value in problem.items() if name not in _KNOWN}
    if (wait := headers.get("Retry-After", "")).isdecimal():
        details["retry_after"] = float(wait)
    if 300 <= status < 400:
        place = headers.get("Location", "elsewhere")
        return errors.Invalid(f"that address sends its visitors to {place}: use that address")
    if not isinstance(detail, str):
        detail = f"the server answered {status} {_phrase(status)}"
    return (kind or _BY_STATUS.get(status, errors.TerracrewError))(detail, **details)


def _problem(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if "json" not in headers.get("Content-Type", ""):
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
