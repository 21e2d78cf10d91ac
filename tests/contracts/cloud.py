"""What every cloud must do. A test class of a cloud inherits `CloudContract` and has a fixture `place`."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec
import pytest

from terracrew import ids
from terracrew.clouds.contract import Canceled, Cloud, CloudRefused
from terracrew.clouds.model import Deployment, InstanceStarted, StartRequest

MAX_REQUESTS = 60
"""More than a deployment or a removal makes."""
TOKEN = "tcw_of_the_contract"


class Killed(BaseException):
    """The process of the fleet was killed: nothing that it would have done afterwards happens."""


class CloudPlace(Protocol):
    """An account that a test may look into past what is tested."""

    cloud: Cloud

    def deployment(self, **settings: Any) -> Deployment:
        """Return a deployment of a new runner."""
        ...

    def things(self, deployment: Deployment) -> list[str]:
        """Return what exists of this runner, without instances."""
        ...

    def instances(self, deployment: Deployment) -> list[str]:
        """Return the names of the runner's instances that have not ended."""
        ...

    def variables(self, deployment: Deployment, instance: str) -> dict[str, str]:
        """Return the variables that one instance has besides those of all instances, or all that it has."""
        ...

    def token(self, deployment: Deployment) -> str:
        """Return the worker token in the secret store."""
        ...

    def take_a_name(self, deployment: Deployment) -> Callable[[], bool]:
        """Let somebody else have a thing with a name that the deployment needs. Returns the question whether it is untouched."""
        ...

    def killing(self, number: int, *, happens: bool) -> AbstractContextManager[None]:
        """Raise `Killed` at the request with this number, from 0: before the cloud has done it, or after that if it `happens`."""
        ...


class Reported:
    """A reporter that keeps what it is given. Each step begins once, and ends once."""

    def __init__(self, cancels_after: str = "") -> None:
        self.steps: dict[str, str] = {}
        self.texts: list[str] = []
        self._cancels_after, self._is_canceled = cancels_after, False

    def begin(self, step: str, words: str) -> None:
        assert words
        assert step not in self.steps, f"{step} begins twice"
        assert "begun" not in self.steps.values(), f"{step} begins before the one before it has ended"
        self.steps[step] = "begun"

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        self._end(step, "done", reference, words)
        self._is_canceled = self._is_canceled or step == self._cancels_after

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        assert words
        self._end(step, "failed", words, remedy)

    def line(self, text: str) -> None:
        self.texts.append(text)

    def require_wanted(self) -> None:
        if self._is_canceled:
            raise Canceled("a person has canceled the job")

    def _end(self, step: str, status: str, *texts: str) -> None:
        assert self.steps[step] == "begun", f"{step} ends twice"
        self.steps[step] = status
        self.texts += texts


async def deployed(place: CloudPlace, **settings: Any) -> Deployment:
    """Deploy a new runner, and return it as it is started."""
    wanted = place.deployment(**settings)
    facts = await place.cloud.deploy(wanted, TOKEN, ids.new("fjb"), Reported())
    return msgspec.structs.replace(wanted, facts=facts)


class CloudContract:
    async def test_a_deployment_is_made_once_and_removed_without_a_trace(self, place: CloudPlace) -> None:
        wanted, first, job = place.deployment(), Reported(), ids.new("fjb")
        facts = await place.cloud.deploy(wanted, TOKEN, job, first)
        made = place.things(wanted)
        assert made
        assert set(first.steps.values()) == {"done"}
        again = msgspec.structs.replace(wanted, facts=facts)
        assert await place.cloud.deploy(again, TOKEN, ids.new("fjb"), Reported()) == facts
        assert place.things(wanted) == made, "the second time makes nothing"
        found = [each for each in await place.cloud.found() if each.runner_id == wanted.runner_id]
        assert {each.job_id for each in found} == {job}
        assert all(each.kind and each.name and each.reference for each in found)

        for _ in range(2):
            removal = Reported()
            await place.cloud.destroy(again, ids.new("fjb"), removal)
            assert set(removal.steps.values()) == {"done"}
            assert place.things(wanted) == []
        assert [each for each in await place.cloud.found() if each.runner_id == wanted.runner_id] == []

    async def test_the_token_is_in_the_secret_store_and_nowhere_else(self, place: CloudPlace) -> None:
        wanted, reported = place.deployment(), Reported()
        facts = await place.cloud.deploy(wanted, TOKEN, ids.new("fjb"), reported)
        assert place.token(wanted) == TOKEN
        assert TOKEN not in repr((facts, reported.texts, await place.cloud.found(), place.cloud))
        again = msgspec.structs.replace(wanted, facts=facts)
        await place.cloud.deploy(again, "", ids.new("fjb"), Reported())
        assert place.token(wanted) == TOKEN, "without a token, the one that is there stays"
        await place.cloud.deploy(again, f"{TOKEN}_2", ids.new("fjb"), Reported())
        assert place.token(wanted) == f"{TOKEN}_2"
        await place.cloud.destroy(again, ids.new("fjb"), Reported())

    @pytest.mark.parametrize("happens", [False, True])
    async def test_a_deployment_that_is_killed_anywhere_ends_well_the_next_time(
        self, place: CloudPlace, happens: bool
    ) -> None:
        expected = None
        for number in range(MAX_REQUESTS):
            wanted, job, is_killed = place.deployment(), ids.new("fjb"), False
            with place.killing(number, happens=happens):
                try:
                    await place.cloud.deploy(wanted, TOKEN, job, Reported())
                except Killed:
                    is_killed = True
            facts = await place.cloud.deploy(wanted, TOKEN, job, Reported())
            count = len(place.things(wanted))
            expected = expected or count
            assert count == expected, f"killed at request {number}: {place.things(wanted)}"
            await place.cloud.destroy(msgspec.structs.replace(wanted, facts=facts), ids.new("fjb"), Reported())
            if not is_killed:
                assert number > 3
                return
        raise AssertionError(f"a deployment makes more than {MAX_REQUESTS} requests")

    @pytest.mark.parametrize("happens", [False, True])
    async def test_what_a_deployment_or_a_removal_that_was_killed_left_is_removed(
        self, place: CloudPlace, happens: bool
    ) -> None:
        for number in range(MAX_REQUESTS):
            wanted, killed = place.deployment(), 0
            with place.killing(number, happens=happens):
                try:
                    await place.cloud.deploy(wanted, TOKEN, ids.new("fjb"), Reported())
                except Killed:
                    killed += 1
            with place.killing(number, happens=happens):
                try:
                    await place.cloud.destroy(wanted, ids.new("fjb"), Reported())
                except Killed:
                    killed += 1
            await place.cloud.destroy(wanted, ids.new("fjb"), Reported())
            assert place.things(wanted) == [], f"killed at request {number}"
            if not killed:
                return
        raise AssertionError(f"a removal makes more than {MAX_REQUESTS} requests")

    async def test_a_canceled_deployment_removes_what_it_made(self, place: CloudPlace) -> None:
        whole = Reported()
        await place.cloud.deploy(place.deployment(), TOKEN, ids.new("fjb"), whole)
        for step in list(whole.steps)[:-1]:
            wanted = place.deployment()
            with pytest.raises(Canceled):
                await place.cloud.deploy(wanted, TOKEN, ids.new("fjb"), Reported(cancels_after=step))
            assert place.things(wanted) == [], f"canceled after {step}"

    async def test_what_somebody_else_has_made_is_not_used_changed_or_removed(self, place: CloudPlace) -> None:
        wanted = place.deployment()
        is_untouched = place.take_a_name(wanted)
        reported = Reported()
        with pytest.raises(CloudRefused):
            await place.cloud.deploy(wanted, TOKEN, ids.new("fjb"), reported)
        assert "failed" in reported.steps.values()
        assert place.things(wanted) == []
        await place.cloud.destroy(wanted, ids.new("fjb"), Reported())
        assert is_untouched()

    async def test_runners_of_one_account_do_not_touch_each_other(self, place: CloudPlace) -> None:
        ours, theirs = await deployed(place), await deployed(place)
        [started] = await place.cloud.start(theirs, [StartRequest("tc-theirs-1-0")])
        assert isinstance(started, InstanceStarted), started
        before = place.things(theirs)
        assert [each.instance for each in await place.cloud.watch(ours, [])] == []
        await place.cloud.destroy(ours, ids.new("fjb"), Reported())
        assert (place.things(ours), place.things(theirs)) == ([], before)
        assert place.instances(theirs) == ["tc-theirs-1-0"]
        await place.cloud.destroy(theirs, ids.new("fjb"), Reported())
        assert (place.things(theirs), place.instances(theirs)) == ([], [])

    async def test_an_instance_is_seen_stopped_and_gone(self, place: CloudPlace) -> None:
        wanted = await deployed(place)
        names = ["tc-1-1-0", "tc-1-1-1"]
        answers = await place.cloud.start(wanted, [StartRequest(each) for each in names])
        assert [each.instance for each in answers] == names
        references = [each.reference for each in answers if isinstance(each, InstanceStarted)]
        assert len(set(references)) == 2, answers
        seen = {each.reference: each for each in await place.cloud.watch(wanted, [])}
        assert {each: seen[each].instance for each in references} == dict(zip(references, names, strict=True))
        assert {seen[each].phase for each in references} <= {"starting", "running"}
        found = [each for each in await place.cloud.found() if each.reference in references]
        assert {each.runner_id for each in found} == {wanted.runner_id}

        for _ in range(2):
            await place.cloud.stop(wanted, references[0], "nobody owns it")
        await place.cloud.destroy(wanted, ids.new("fjb"), Reported())
        assert (place.things(wanted), place.instances(wanted)) == ([], [])
        left = await place.cloud.watch(wanted, references)
        assert {each.phase for each in left} <= {"ended"}

    async def test_an_instance_on_trial_is_told_so_and_no_other(self, place: CloudPlace) -> None:
        wanted, names = await deployed(place), ["tc-3-1-0", "tc-3-1-1"]
        asked = [StartRequest(names[0], is_on_trial=True), StartRequest(names[1])]
        for _ in range(2):
            answers = await place.cloud.start(wanted, asked)
            assert all(isinstance(each, InstanceStarted) for each in answers), answers
        found = [place.variables(wanted, each) for each in names]
        assert [each.get("TERRACREW_RUNNER__ON_TRIAL") for each in found] == ["true", None]
        assert [each["TERRACREW_RUNNER__INSTANCE"] for each in found] == names
        await place.cloud.destroy(wanted, ids.new("fjb"), Reported())

    async def test_an_instance_that_is_asked_for_again_is_the_same(self, place: CloudPlace) -> None:
        """Also by another server at the same moment, and after a change of the deployment."""
        wanted, asked = await deployed(place), [StartRequest("tc-2-1-0"), StartRequest("tc-2-1-1")]
        first, second = await asyncio.gather(place.cloud.start(wanted, asked), place.cloud.start(wanted, asked))
        assert all(isinstance(each, InstanceStarted) for each in first), first
        changed = msgspec.structs.replace(wanted, settings=msgspec.structs.replace(wanted.settings, capacity=3))
        facts = await place.cloud.deploy(changed, "", ids.new("fjb"), Reported())
        third = await place.cloud.start(msgspec.structs.replace(changed, facts=facts), asked)
        assert first == second == third
        assert sorted(place.instances(wanted)) == ["tc-2-1-0", "tc-2-1-1"]
        await place.cloud.destroy(wanted, ids.new("fjb"), Reported())

    async def test_a_test_of_the_connection_changes_nothing_and_says_what_it_found(self, place: CloudPlace) -> None:
        wanted, reported = place.deployment(), Reported()
        before = await place.cloud.found()
        is_good = await place.cloud.check(reported, wanted)
        assert is_good == ("failed" not in reported.steps.values())
        assert set(reported.steps.values()) <= {"done", "failed"}
        assert (place.things(wanted), await place.cloud.found()) == ([], before)
