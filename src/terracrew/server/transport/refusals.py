"""Answers that are written to a connection without the application: problem+json, then the connection ends."""

from http import HTTPStatus

import msgspec

from terracrew.client.problems import MEDIA_TYPE


def render(status: HTTPStatus, code: str, detail: str, retry_after_seconds: int | None = None) -> bytes:
    """Render a whole HTTP/1.1 answer in the shape that every other error has."""
    body = msgspec.json.encode(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, "code": code}
    )
    retry = f"retry-after: {retry_after_seconds}\r\n" if retry_after_seconds is not None else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\ncache-control: no-store\r\n"
        f"x-content-type-options: nosniff\r\n{retry}content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
