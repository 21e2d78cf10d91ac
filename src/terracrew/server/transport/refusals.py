"""Answers that are sent without the application, as problem+json in the same form as every other error."""

from http import HTTPStatus

import msgspec

from terracrew.client.problems import MEDIA_TYPE


def body(status: HTTPStatus, code: str, detail: str) -> bytes:
    return msgspec.json.encode(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, "code": code}
    )


def render(status: HTTPStatus, code: str, detail: str, retry_after_seconds: int | None = None) -> bytes:
    """Render a whole HTTP/1.1 answer, after which the connection ends."""
    content = body(status, code, detail)
    retry = f"retry-after: {retry_after_seconds}\r\n" if retry_after_seconds is not None else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\ncache-control: no-store\r\n"
        f"x-content-type-options: nosniff\r\n{retry}content-length: {len(content)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + content
