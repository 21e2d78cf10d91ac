"""Executors that connect at the same time are read for together, and each is welcomed with what is its own."""

import asyncio

import pytest

from terracrew.errors import Forbidden
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import ExecutorSession
from tests.server.hub.hub_clients import Hub, ref_of

pytestmark = pytest.mark.feature("S3.offers")


async def test_each_of_many_gets_its_own_attempt_and_a_stranger_is_refused_alone(hub: Hub) -> None:
    async with hub.runner(capacity=3) as runner:
        granted = [await runner.granted(await hub.job()) for _ in range(3)]
    refs = [*map(ref_of, granted), AttemptRef(granted[0].spec.job_id, 7)]
    sessions = [ExecutorSession(None, ref) for ref in refs]  # pyright: ignore[reportArgumentType]  (nothing is sent)
    found = await asyncio.gather(*map(hub.server.hub.executors.arrivals, sessions), return_exceptions=True)
    for ref, session, each in zip(refs[:3], sessions, found, strict=False):
        assert not isinstance(each, BaseException)
        assert (each.owned.job.id, each.owned.attempt.number, each.secrets) == (ref.job_id, ref.attempt, [])
        assert session.runner_id == hub.runner_id
    assert isinstance(found[3], Forbidden)
    assert sessions[3].runner_id == ""
