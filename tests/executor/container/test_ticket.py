"""A container with a ticket fetches its start: again if the answer was lost, and not with a ticket that another process used."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import exit_codes
from terracrew.errors import Invalid, Unreachable
from terracrew.executor.container import ephemeral, ticket
from terracrew.protocol import start
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub

pytestmark = pytest.mark.feature("D6.token")


@pytest.fixture
async def hub() -> AsyncIterator[FakeExecutorHub]:
    hub = FakeExecutorHub()
    await hub.start()
    yield hub
    await hub.stop()


@pytest.fixture
def shown(hub: FakeExecutorHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The hash of a ticket whose start the server has."""
    processes = ExecutorProcesses(hub, tmp_path)
    text = start.new_ticket()
    digest = hashlib.sha256(text.encode()).hexdigest()
    hub.starts[digest] = msgspec.json.encode(processes.start_of(processes.spec(JobType.PLAN, b"")))
    monkeypatch.setenv(ticket.TICKET_VARIABLE, text)
    return digest


async def test_a_start_is_fetched_and_then_removed_from_the_server(hub: FakeExecutorHub, shown: str) -> None:
    content = hub.starts[shown]
    assert await asyncio.to_thread(ticket.fetch, hub.url, 10) == content
    assert not hub.starts
    with pytest.raises(Invalid, match="TERRACREW_START_TICKET is not set"):
        ticket.fetch(hub.url)


async def test_a_server_that_does_not_answer_is_asked_again_with_the_same_claim(
    hub: FakeExecutorHub, shown: str
) -> None:
    content, lost = hub.starts[shown], [502, 502]
    hub.foreign = lambda _method, name, _size: lost.pop() if name == "starts" and lost else None
    assert await asyncio.to_thread(ticket.fetch, hub.url, 20) == content
    assert not lost
    assert len(hub.claims) == 1, "the answers that were lost had the same claim"


async def test_a_ticket_that_another_process_used_ends_the_container_before_anything_begins(
    hub: FakeExecutorHub, shown: str, tmp_path: Path
) -> None:
    hub.claims[shown] = "of a thief"
    code = await asyncio.to_thread(ephemeral.run, f"ticket:{hub.url}", tmp_path / "report")
    assert code == exit_codes.TICKET_REFUSED
    assert not hub.hellos


async def test_a_server_that_never_answers_is_given_up(hub: FakeExecutorHub, shown: str) -> None:
    await hub.stop()
    with pytest.raises(Unreachable):
        await asyncio.to_thread(ticket.fetch, hub.url, 0.1)
    await hub.start()
