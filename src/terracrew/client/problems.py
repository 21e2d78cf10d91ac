"""Turns a problem+json answer into the same error that the server raised, and recognises the answers of other programs."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec

from terracrew import errors

MEDIA_TYPE = "application/problem+json"
_MEMBERS = frozenset({"type", "title", "status", "detail", "code", "instance", "message", "self"})


def own(headers: Mapping[str, str], body: bytes) -> errors.TerracrewError | None:
    """Return the error that our server raised; None if the answer has no problem code of ours, so that another program may have sent it."""
    problem = _problem(headers, body)
    code, detail = problem.get("code"), problem.get("detail")
    kind = errors.tree().get(code) if isinstance(code, str) else None
    if kind is None or not isinstance(detail, str):
        return None
    details = {name: value for name, value in problem.items() if name not in _MEMBERS}
    return kind(detail, **{**details, **retry_after(headers)})


def foreign(status: int, headers: Mapping[str, str], asked: str) -> errors.ForeignAnswer:
    """Return the error for an answer that did not come from our server; `asked` names the request."""
    name = headers.get("Server", "")[:80]
    by = f" ({name})" if name.isprintable() and name else ""
    to = f" It sends to {headers['Location'][:200]!r}." if 300 <= status < 400 and "Location" in headers else ""
    return errors.ForeignAnswer(
        f"{asked} was answered {status} {_phrase(status)} by something that is not a Terracrew server{by}: "
        f"a proxy, a firewall or a load balancer between here and the server, or another program at that address.{to}",
        answered=status,
        **retry_after(headers),
    )


def from_response(status: int, headers: Mapping[str, str], body: bytes, asked: str) -> errors.TerracrewError:
    """Return the error that an answer represents. A newer server may send codes that this version does not know."""
    if error := own(headers, body):
        return error
    if 300 <= status < 400:
        return errors.Invalid(f"that address redirects to {headers.get('Location', 'elsewhere')}: use that address")
    detail = _problem(headers, body).get("detail")
    return errors.TerracrewError(detail) if isinstance(detail, str) else foreign(status, headers, asked)


def _problem(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if MEDIA_TYPE not in headers.get("Content-Type", ""):
        return {}
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def retry_after(headers: Mapping[str, str]) -> dict[str, float]:
    """Return the detail of an error that says how many seconds to wait; empty if the answer does not say so."""
    return {"retry_after": float(wait)} if (wait := headers.get("Retry-After", "")).isdecimal() else {}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
