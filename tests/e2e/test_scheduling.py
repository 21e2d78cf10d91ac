"""Each job is offered to the right runners: a real server, and runners that speak the protocol by hand."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.client.address import segment
from terracrew.protocol import messages
from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Step
from tests.e2e import modules
from tests.e2e.simulated_runner import Client, batch, executor_hello, hub, runner_hello, runner_token
from tests.e2e.system import System, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with running(Path(tmp_path_factory.mktemp("scheduling"))) as found:
        found.start_server(runner=False)
        yield found


class SchedulingTree:
    """A part of the tree of its own for each test, and the runners that it connects."""

    _count = 0

    def __init__(self, system: System, stack: ExitStack) -> None:
        SchedulingTree._count += 1
        self.system = system
        self.root = f"tree{SchedulingTree._count}"
        self._stack = stack

    def module(self, path: str) -> str:
        self.system.module(f"{self.root}/{path}", modules.quick())
        return f"{self.root}/{path}"

    def runner(self, name: str, group: str = "", *, slots: int = 1, **hello: Any) -> Client:
        """Connect a runner that has this many credits."""
        path = f"{self.root}/{group}".rstrip("/")
        credentials = dict(self.system.api.post("/runners/register", {"name": name, "group": path})["environment"])
        client = self._stack.enter_context(hub(self.system, runner_token(self.system, credentials)))
        assert client.ask(runner_hello(credentials, **hello))["type"] == "welcome"
        client.send_credits(slots)
        return client

    def run(self, module: str, **fields: Any) -> str:
        return self.system.api.post(f"/modules/{segment(module)}/jobs", {"type": "PLAN", **fields})["id"]

    def finish(self, granted: Granted) -> None:
        """Report the success of this attempt."""
        with hub(self.system, granted.credentials.hub) as executor:
            executor.ask(executor_hello(AttemptRef(granted.spec.job_id, granted.spec.attempt)))
            executor.socket.send(batch(1, StepStatus(Step.PLAN, "RUNNING"), Result("SUCCEEDED")))
            executor.wait_for("ack")

    def reason(self, job: str) -> str:
        return (self.system.job(job)["reason"] or {}).get("code", "")


@pytest.fixture
def tree(server: System) -> Iterator[SchedulingTree]:
    with ExitStack() as stack:
        yield SchedulingTree(server, stack)


def is_silent(client: Client, seconds: float = 0.4) -> bool:
    """Nothing is granted: the absence of an event can only be waited out."""
    try:
        client.wait_for("granted", seconds)
    except TimeoutError:
        return True
    return False


def granted_job(client: Client) -> str:
    """Return the job that a runner is granted next."""
    return client.wait_for("granted")["spec"]["job_id"]


@pytest.mark.feature("S1.assigned", "S2.online", "S2.order")
def test_the_nearest_tier_that_is_online_gets_the_job_and_no_other(tree: SchedulingTree) -> None:
    module = tree.module("net/vpc")
    far, near = tree.runner("far"), tree.runner("near", "net")
    job = tree.run(module)
    assert granted_job(near) == job
    assert is_silent(far)
    near.send(messages.Heartbeat("1", is_draining=True, attempts=[]))
    near.send(messages.HandBack(job, 1, "it drains"))
    assert granted_job(far) == job


@pytest.mark.feature("S2.waits", "S5.full", "S6.ahead")
def test_a_full_tier_waits_and_does_not_spill_over(tree: SchedulingTree) -> None:
    first, second = tree.module("net/one"), tree.module("net/two")
    far, near = tree.runner("far"), tree.runner("near", "net", capacity=1)
    running_job = tree.run(first)
    assert granted_job(near) == running_job
    waiting = tree.run(second)
    assert is_silent(far)
    assert tree.reason(waiting) == "all_full"
    near.send(messages.HandBack(running_job, 1, "make room"))
    near.send_credits()
    assert granted_job(near) in {waiting, running_job}


@pytest.mark.feature("S3.first")
def test_runners_that_say_nothing_do_not_hold_up_a_job_that_another_one_can_take(tree: SchedulingTree) -> None:
    module = tree.module("app")
    silent, ready = [tree.runner(f"silent-{n}", slots=0) for n in range(3)], tree.runner("ready")
    job = tree.run(module)
    assert granted_job(ready) == job
    second = tree.run(tree.module("other"))
    assert all(map(is_silent, silent))
    silent[1].send_credits()
    assert granted_job(silent[1]) == second


@pytest.mark.feature("S3.offers")
def test_groups_take_turns_and_priority_goes_first(tree: SchedulingTree) -> None:
    names = ["a/one", "a/two", "a/three", "b/one"]
    paths = [tree.module(name) for name in names]
    urgent = tree.module("a/urgent")
    blocker = tree.module("blocker")
    runner = tree.runner("crew", capacity=1)
    tree.run(blocker)
    granted = msgspec.convert(runner.wait_for("granted"), Granted, strict=False)
    jobs = {tree.run(path): name for path, name in zip(paths, names, strict=True)}
    jobs[tree.run(urgent, priority=5)] = "a/urgent"
    tree.finish(granted)
    order: list[str] = []
    for _ in jobs:
        runner.send_credits()
        granted = msgspec.convert(runner.wait_for("granted"), Granted, strict=False)
        order.append(jobs[granted.spec.job_id])
        tree.finish(granted)
    assert order[0] == "a/urgent"
    assert order.index("b/one") in (1, 2), order
    assert [name for name in order if name.startswith("a/") and name != "a/urgent"] == names[:3]


@pytest.mark.feature("R7.drain", "S5.draining")
def test_a_draining_runner_gets_nothing_new_until_it_is_undrained(tree: SchedulingTree) -> None:
    module = tree.module("app")
    runner = tree.runner("crew")
    path = segment(f"{tree.root}/crew")
    tree.system.api.post(f"/runners/{path}/drain", {"on": True})
    job = tree.run(module)
    assert is_silent(runner)
    assert tree.reason(job) == "none_online"
    tree.system.api.post(f"/runners/{path}/drain", {"on": False})
    assert granted_job(runner) == job


@pytest.mark.feature("S5.engine")
def test_a_runner_without_the_engine_gets_no_job_and_the_job_says_so(tree: SchedulingTree) -> None:
    module = tree.module("app")
    runner = tree.runner("crew", engines={"pulumi": "3"})
    job = tree.run(module)
    assert is_silent(runner)
    assert tree.reason(job) == "no_engine"


@pytest.mark.feature("S4.instance")
def test_a_pinned_module_waits_for_its_instance(tree: SchedulingTree) -> None:
    module = tree.module("app")
    runner = tree.runner("crew", instance="left")
    tree.system.api.patch(
        f"/modules/{segment(module)}", {"runner": f"{tree.root}/crew", "runner_instance_name": "right"}
    )
    job = tree.run(module)
    assert is_silent(runner)
    assert tree.reason(job) == "instance_absent"
    tree.system.api.patch(f"/modules/{segment(module)}", {"runner_instance_name": "left"})
    assert granted_job(runner) == job
