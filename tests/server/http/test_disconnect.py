"""A client that goes away during its request causes no error in the server."""

import logging
from typing import Any

import pytest

from tests.server.application import Application, on_one


@on_one
async def test_client_disconnected_prematurely_is_no_error_of_the_server(
    application: Application, caplog: pytest.LogCaptureFixture
) -> None:
    frames: list[dict[str, Any]] = [
        {"type": "http.request", "body": b'{"path": ', "more_body": True},
        {"type": "http.disconnect"},
    ]
    request = application.admin.build_request("POST", "/api/v1/groups", headers={"Content-Type": "application/json"})
    headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() != b"content-length"]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return frames.pop(0) if len(frames) > 1 else frames[0]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/v1/groups",
        "raw_path": b"/api/v1/groups",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    with caplog.at_level(logging.INFO):
        await application.app(scope, receive, send)
    assert sent[0]["status"] == 503, "a proxy that passes this on lets the client try again"
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
