"""The tasks of all attempts are described together, and an API that does not answer says nothing about them."""

import asyncio
from typing import Any, cast

import pytest

from terracrew.runner.dispatch.ecs.api import EcsApi, EcsRefused, EcsSilent
from terracrew.runner.dispatch.ecs.polling import MAX_DESCRIBED_TASKS, TaskPoller

pytestmark = pytest.mark.feature("D6.watched")


class DescribingApi:
    """Answers for tasks that it knows; before that, it raises the errors that it was given."""

    def __init__(self, known: set[str], *errors: Exception) -> None:
        self._known, self._errors = known, list(errors)
        self.asked: list[int] = []

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        assert operation == "describe_tasks"
        self.asked.append(len(arguments["tasks"]))
        if self._errors:
            raise self._errors.pop(0)
        return {"tasks": [{"taskArn": arn} for arn in arguments["tasks"] if arn in self._known]}


def poller(api: DescribingApi) -> TaskPoller:
    return TaskPoller(cast("EcsApi", api), "crew", poll_seconds=0.001)


async def test_many_tasks_take_few_requests() -> None:
    names = [f"task-{number}" for number in range(250)]
    api = DescribingApi(set(names))
    polling = poller(api)
    found = await asyncio.gather(*(polling.next(name) for name in names))
    assert [each and each["taskArn"] for each in found] == names
    assert api.asked == [MAX_DESCRIBED_TASKS, MAX_DESCRIBED_TASKS, 50]
    await polling.close()


async def test_a_task_that_is_not_described_is_missing_and_errors_say_nothing() -> None:
    api = DescribingApi({"a"}, EcsSilent("throttled"), EcsRefused("AccessDeniedException"), EcsSilent("timeout"))
    polling = poller(api)
    async with asyncio.timeout(20):
        assert await asyncio.gather(polling.next("a"), polling.next("b")) == [{"taskArn": "a"}, None]
    assert len(api.asked) == 4
    await polling.close()


async def test_nothing_is_asked_for_a_watcher_that_has_left() -> None:
    api = DescribingApi({"a", "b"}, *(EcsSilent("silent") for _ in range(3)))
    polling = poller(api)
    left = asyncio.create_task(polling.next("b"))
    stays = asyncio.create_task(polling.next("a"))
    await asyncio.sleep(0)
    left.cancel()
    async with asyncio.timeout(20):
        assert await stays == {"taskArn": "a"}
    assert api.asked[-1] == 1
    await polling.close()


async def test_who_asks_again_at_once_waits_for_the_next_poll() -> None:
    """Symptom: every answer made the next request, and one task used up what an account may ask."""
    api = DescribingApi({"arn:1"})
    slow = TaskPoller(cast("EcsApi", api), "crew", poll_seconds=60.0)
    try:
        await asyncio.wait_for(slow.next("arn:1"), 10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(slow.next("arn:1"), 0.2)
        assert len(api.asked) == 1
    finally:
        await slow.close()
