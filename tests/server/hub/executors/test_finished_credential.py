"""The hub credential of an attempt is refused once the attempt has reported its result."""

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from terracrew.protocol import messages
from terracrew.protocol.events import Result
from tests.e2e.simulated_runner import batch
from tests.server.hub.hub_clients import Hub

REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "/archive", {}),
    ("GET", "/state", {}),
    ("GET", "/plan", {}),
    ("PUT", "/plan", {"content": b"x"}),
    ("PUT", "/states/5", {"content": b"x"}),
    ("PUT", "/uploads", {"json": {"target": "states/5", "sha256": "ab" * 32, "size": 10}}),
    ("PUT", "/uploads/upl_1/0", {"content": b"x"}),
    ("PUT", "/start", {"content": b"x", "headers": {"X-Ticket-SHA256": "0" * 64}}),
    ("DELETE", "/start", {}),
    ("POST", "/cloud-token", {"json": {"audience": "aws", "phase": "apply"}}),
]
"""All that an executor can ask for by HTTP."""


@pytest.mark.feature("X4.executor")
async def test_a_finished_attempts_credential_is_refused_by_every_request_and_message(hub: Hub) -> None:
    """After an apply had SUCCEEDED, its credential was used to send another state and a forged line of the log."""
    job_id = await hub.job("APPLY")
    async with hub.runner() as runner:
        granted = await runner.granted(job_id)
    async with hub.executor(granted) as executor:
        await executor.connection.send(batch(1, Result("FAILED", "over")))
        assert (await executor.get("ack"))["mark"] == 1
    person = hub.crew.bearer(granted.credentials.hub)
    place = f"/runnerhub/attempts/{job_id}/1"
    for method, path, content in REQUESTS:
        answer = await person.request(method, place + path, **content)
        assert answer.status_code in (401, 403, 409), f"{method} {path}: {answer.status_code} {answer.text}"
    for credential in (granted.credentials.hub, granted.credentials.api):
        answer = await hub.crew.bearer(credential).get(f"/api/v1/jobs/{job_id}")
        assert answer.status_code in (401, 403, 404), answer.text
    for frame in (batch(2, "a forged line\n"), batch(2, Result("SUCCEEDED", "no, it went well"))):
        assert await answered(hub, granted, frame) in ("", "refused")
    assert await answered(hub, granted, messages.Begin(0)) in ("", "refused", "begin_refused")
    view = (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}")).json()
    assert (view["status"], view["message"], view["notes"]) == ("FAILED", "over", [])
    assert "forged" not in (await hub.crew.app.admin.get(f"/api/v1/jobs/{job_id}/log")).text


async def answered(hub: Hub, granted: messages.Granted, frame: Any) -> str:
    """The kind of the answer to a frame of a finished attempt; '' where the connection is closed instead."""
    try:
        async with hub.executor(granted) as executor:
            if isinstance(frame, bytes):
                await executor.connection.send(frame)
            else:
                await executor.send(frame)
            return str((await executor.get())["type"])
    except (ConnectionClosed, InvalidStatus):
        return ""
