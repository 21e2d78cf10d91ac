"""A dispatcher that is slow to say which engines it has does not keep a runner from its server."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from terracrew.protocol.dispatcher_choice import DEFAULT
from terracrew.runner.connection import announced_dispatchers
from terracrew.runner.connection.announced_dispatchers import Announcements
from terracrew.runner.dispatch.dispatchers import OpenedDispatcher
from terracrew.toolchains import cache


class Answering:
    """A dispatcher that is only asked for its engines."""

    def __init__(self, engines: Mapping[str, list[str]] | None = None) -> None:
        self.answer = asyncio.get_running_loop().create_future()
        if engines is not None:
            self.answer.set_result(engines)
        self.times = 0

    async def engines(self) -> Mapping[str, list[str]] | None:
        self.times += 1
        return await asyncio.shield(self.answer)


def opened(**dispatchers: Answering) -> list[OpenedDispatcher]:
    return [OpenedDispatcher(name, "docker", cast("Any", each)) for name, each in dispatchers.items()]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announced_dispatchers, "ENGINES_SECONDS", 0.05)


async def test_one_that_does_not_answer_is_announced_without_engines_and_again_when_it_has_answered() -> None:
    slow, quick = Answering(), Answering({"tofu": ["1.12.6"]})
    announcements = Announcements(opened(**{DEFAULT: slow, "quick": quick}))
    found = await announcements.find([])
    assert found.engines.versions == {}
    assert [(offer.name, offer.engines) for offer in found.offers] == [(DEFAULT, {}), ("quick", {"tofu": ["1.12.6"]})]
    changed = asyncio.create_task(announcements.changed())
    await asyncio.sleep(0)
    assert not changed.done()
    slow.answer.set_result({"terraform": ["1.5.7"]})
    await asyncio.wait_for(changed, 5)
    found = await announcements.find([])
    assert found.engines.defaults == {"terraform": "1.5.7"}
    assert slow.times == 1, "the late answer counts; asked again, it could be late again for ever"
    began = time.monotonic()
    await announcements.find([])
    assert slow.times == 2, "it is asked again when the runner connects the next time"
    assert time.monotonic() - began < 5
    announcements.close()


async def test_an_answer_between_the_announcement_and_the_wait_is_not_missed() -> None:
    slow = Answering()
    announcements = Announcements(opened(**{DEFAULT: slow}))
    await announcements.find([])
    slow.answer.set_result({"tofu": ["1.12.6"]})
    await asyncio.sleep(0.01)
    await asyncio.wait_for(announcements.changed(), 5)
    announcements.close()


async def test_a_question_without_an_answer_is_not_asked_twice_at_the_same_time() -> None:
    slow = Answering()
    announcements = Announcements(opened(**{DEFAULT: Answering({}), "slow": slow}))
    for _ in range(3):
        assert [offer.name for offer in (await announcements.find([])).offers] == [DEFAULT]
    assert slow.times == 1
    announcements.close()


async def test_one_that_fails_to_answer_is_left_out_and_the_others_are_announced() -> None:
    broken = Answering()
    broken.answer.set_exception(RuntimeError("the daemon is of a strange version"))
    announcements = Announcements(opened(**{DEFAULT: Answering({"tofu": ["1.12.6"]}), "broken": broken}))
    found = await announcements.find([])
    assert [offer.name for offer in found.offers] == [DEFAULT]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(announcements.changed(), 0.05)
    announcements.close()


async def test_one_that_is_slow_again_and_again_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A runner that connects again must do so before its starting attempts count as lost."""
    announcements = Announcements(opened(**{DEFAULT: Answering({}), "slow": Answering()}))
    await announcements.find([])
    monkeypatch.setattr(announced_dispatchers, "ENGINES_SECONDS", 600.0)
    async with asyncio.timeout(30):
        await announcements.find([])
    announcements.close()


@pytest.mark.feature("J4.version")
async def test_an_engine_that_somebody_installs_is_announced_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason said `terracrew engine install pulumi` there, and stayed after doing exactly that."""
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path))
    monkeypatch.setattr(announced_dispatchers, "INSTALLED_POLL_SECONDS", 0.02)
    of_machine = Answering()
    of_machine.answer.set_result(None)
    announcements = Announcements(opened(**{DEFAULT: of_machine}))
    await announcements.find([])
    changed = asyncio.create_task(announcements.changed())
    await asyncio.sleep(0.1)
    assert not changed.done()
    program = cache.directory("pulumi", "3.255.0") / "pulumi"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho v3.255.0\n")
    program.chmod(0o755)
    await asyncio.wait_for(changed, 5)
    found = await announcements.find([])
    assert found.engines.versions["pulumi"] == ["3.255.0"]
    announcements.close()
