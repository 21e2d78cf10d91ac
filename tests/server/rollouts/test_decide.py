"""A roll-out keeps its promises in every order of events: this world plays both the runners and the people."""

from collections import Counter
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType
from terracrew.api.rollouts import SETTLED, Rollout, RolloutRunner, RolloutRunnerStatus, RolloutStatus
from terracrew.server.rollouts import decide, planning
from terracrew.server.rollouts.decide import End, Queue, ReleaseFacts, RolloutStep, RunnerFacts, Save
from terracrew.server.rollouts.planning import WaveCandidate

pytestmark = pytest.mark.feature("V2.rollouts")
NOW = datetime(2026, 11, 16, 14, 40, tzinfo=UTC)
R, S, J = RolloutStatus, RolloutRunnerStatus, FleetJobStatus
OLD, NEW = "0.1.0-rc.1", "0.1.0-rc.2"


class World:
    """Applies the steps of a roll-out to rows in memory, and checks each of them."""

    def __init__(self, paths: list[str], by_hand: int = 0) -> None:
        self.rollout = Rollout(
            id="rlo_1",
            organization_id="org_1",
            version=NEW,
            status=R.ROLLING,
            is_automatic=False,
            started_by="usr_1",
            started_by_name="marta",
            started_at=NOW,
        )
        divided = planning.divide([WaveCandidate(path, path) for path in paths])
        wave_of = {path: number for number, wave in enumerate(divided) for path in wave}
        self.runners = {path: self._row(path, wave_of[path]) for path in paths}
        hand = [f"hand{number}" for number in range(by_hand)]
        self.runners |= {path: replace(self._row(path, None), status=S.BY_HAND) for path in hand}
        self.facts = {path: RunnerFacts(path, version=OLD) for path in self.runners}
        self.jobs: dict[str, FleetJob] = {}
        self.release = ReleaseFacts()
        self.sizes = Counter(each.group for each in self.runners.values() if each.wave is not None)
        self.queued: Counter[tuple[str, int]] = Counter()
        self.resumes = 0

    def _row(self, path: str, wave: int | None) -> RolloutRunner:
        return RolloutRunner(
            rollout_id="rlo_1", runner_id=path, group_id="grp", path=path, wave=wave, from_version=OLD, changed_at=NOW
        )

    @property
    def statuses(self) -> dict[str, str]:
        return {path: each.status.value for path, each in self.runners.items()}

    @property
    def updating(self) -> list[RolloutRunner]:
        return [each for each in self.runners.values() if each.status is S.UPDATING]

    def step(self) -> RolloutStep | None:
        rows = list(self.runners.values())
        found = decide.step(self.rollout, rows, self.facts, self.jobs, self.release, NOW)
        match found:
            case Save(before, after):
                assert self.runners[before.runner_id] == before
                self.runners[before.runner_id] = after
            case Queue(runner, wave):
                self._queue(runner, wave)
            case End(after):
                self.rollout = after
            case None:
                pass
        return found

    def settle(self) -> None:
        for _ in range(10 * len(self.runners) + 10):
            if self.step() is None:
                return
        raise AssertionError("the steps never end")

    def _queue(self, runner: RolloutRunner, wave: int) -> None:
        assert self.rollout.status is R.ROLLING, "only a roll-out that rolls queues something"
        assert self.runners[runner.runner_id].status is S.WAITING
        now = self.facts[runner.runner_id]
        assert (now.is_disabled, now.is_removing, now.version, now.path) == (False, False, OLD, runner.path)
        others = [each for each in self.runners.values() if each.runner_id != runner.runner_id]
        assert all(each.status in SETTLED for each in others if each.wave is not None and each.wave < wave)
        if not any(each.status is S.UPDATED for each in others):
            assert not self.updating, "the first is alone"
        in_group = sum(each.group == runner.group for each in self.updating)
        assert in_group + 1 < self.sizes[runner.group] or self.sizes[runner.group] == 1, "all of a group at once"
        self.queued[runner.runner_id, self.resumes] += 1
        assert self.queued[runner.runner_id, self.resumes] == 1, "a runner gets one job"
        job = _job(runner.runner_id, len(self.jobs) + 1)
        self.jobs[job.id] = job
        self.runners[runner.runner_id] = runner.to(S.UPDATING, NOW, wave=wave, job_id=job.id, job_number=job.number)

    def end_job(self, runner: RolloutRunner, status: FleetJobStatus) -> None:
        job = self.jobs[runner.job_id or ""]
        error = "" if status is J.SUCCEEDED else "the trial did not pass"
        self.jobs[job.id] = replace(job, status=status, finished_at=NOW, error=error)
        if status is J.SUCCEEDED and runner.runner_id in self.facts:
            self.facts[runner.runner_id] = replace(self.facts[runner.runner_id], version=NEW)

    def resume(self) -> None:
        self.resumes += 1
        self.rollout = self.rollout.to(R.ROLLING, NOW)
        for path, each in self.runners.items():
            if each.status is S.FAILED:
                self.runners[path] = decide.retry(each, NOW)


def _job(target: str, number: int) -> FleetJob:
    return FleetJob(
        id=f"fjb_{number}",
        organization_id="org_1",
        group_id="grp",
        number=number,
        type=FleetJobType.UPDATE_WORKER,
        status=J.QUEUED,
        attempt=1,
        target_id=target,
        target_name=target,
        runner_id=target,
        identity_id="",
        spec={},
        due_at=NOW,
        created_by="usr_1",
        created_by_name="marta",
        created_at=NOW,
    )


PATHS = ["net/a", "net/b", "net/c", "pay/a", "pay/b", "build", "stage/a"]
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["succeed"] * 8
            + ["fail", "cancel", "remove", "disable", "rename", "updated", "busy", "free", "by_hand", "lost_job"]
            + ["pause", "resume", "resume", "stop", "newer", "withdraw"]
        ),
        st.integers(0, 30),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PATHS), unique=True, min_size=1), st.integers(0, 2), EVENTS)
def test_no_order_of_events_breaks_a_promise(paths: list[str], by_hand: int, events: list[tuple[str, int]]) -> None:
    world = World(paths, by_hand)
    for event, number in events:
        _happen(world, event, number, paths)
        if number % 4 == 0:
            continue  # several things happen before the loop looks
        before = world.queued.total()
        world.settle()
        if world.rollout.status is not R.ROLLING:
            assert not (event in ("pause", "stop") and world.queued.total() > before)
    # Whatever happened: if everything goes well from here on, it comes to its end.
    for number in range(3 * len(paths) + 3):
        for path in paths:
            if path in world.facts:
                world.facts[path] = replace(world.facts[path], open_job=None)
        world.release = ReleaseFacts()
        world.settle()
        if world.rollout.status is R.DONE:
            break
        if world.rollout.status in (R.PAUSED, R.STOPPED):
            world.resume()
        for each in world.updating:
            world.end_job(each, J.SUCCEEDED)
        assert number < 3 * len(paths) + 2, world.statuses
    assert all(each.status in SETTLED for each in world.runners.values())


def _happen(world: World, event: str, number: int, paths: list[str]) -> None:
    path = paths[number % len(paths)]
    updating = world.updating
    at_work = updating[number % len(updating)] if updating else None
    if event in ("succeed", "fail", "cancel", "lost_job"):
        if at_work is not None and at_work.job_id in world.jobs and not world.jobs[at_work.job_id].is_terminal:
            if event == "lost_job":
                del world.jobs[at_work.job_id]
            else:
                world.end_job(at_work, {"succeed": J.SUCCEEDED, "fail": J.FAILED, "cancel": J.CANCELED}[event])
    elif event == "remove":
        world.facts.pop(path, None)
    elif event == "by_hand":  # its update was found impossible when it was queued
        if world.runners[path].status is S.WAITING:
            world.runners[path] = world.runners[path].to(S.BY_HAND, NOW, words="it is offline")
    elif event in ("disable", "rename", "updated", "busy", "free"):
        changes: dict[str, dict[str, object]] = {
            "disable": {"is_disabled": True},
            "rename": {"path": "moved/" + path},
            "updated": {"version": NEW},
            "busy": {"open_job": 7},
            "free": {"open_job": None},
        }
        if path in world.facts:
            world.facts[path] = replace(world.facts[path], **changes[event])
    elif event == "newer":
        world.release = replace(world.release, newer="0.1.0-rc.3")
    elif event == "withdraw":
        world.release = replace(world.release, withdrawn_reason="it loses logs")
    elif event == "pause" and world.rollout.status is R.ROLLING:
        world.rollout = world.rollout.to(R.PAUSED, NOW)
    elif event == "stop" and world.rollout.is_open:
        world.rollout = world.rollout.to(R.STOPPED, NOW, "marta stopped it")
    elif event == "resume" and world.rollout.status in (R.PAUSED, R.STOPPED):
        world.resume()


def test_waves_follow_each_other_and_a_runner_by_hand_holds_up_nobody() -> None:
    world = World(["net/a", "net/b", "pay/a"], by_hand=1)
    world.settle()
    assert world.statuses == {"net/a": "updating", "net/b": "waiting", "pay/a": "waiting", "hand0": "by_hand"}
    world.end_job(world.updating[0], J.SUCCEEDED)
    world.settle()
    assert world.statuses == {"net/a": "updated", "net/b": "updating", "pay/a": "updating", "hand0": "by_hand"}
    for each in world.updating:
        world.end_job(each, J.SUCCEEDED)
    world.settle()
    assert world.rollout.status is R.DONE
    assert world.rollout.ended_at == NOW


def test_a_failure_stops_it_with_the_reason_and_what_runs_is_still_followed() -> None:
    world = World(["net/a", "net/b", "pay/a", "x/a"])
    world.settle()
    world.end_job(world.updating[0], J.SUCCEEDED)
    world.settle()
    first, second = world.updating
    world.end_job(first, J.FAILED)
    world.settle()
    assert (world.rollout.status, world.rollout.stop_reason) == (R.STOPPED, "the trial did not pass")
    assert world.rollout.stop_runner_id == first.runner_id
    world.end_job(second, J.SUCCEEDED)
    world.settle()
    assert world.statuses[second.path] == "updated", "it was under way when the other one failed"
    assert "waiting" in world.statuses.values()


def test_if_the_first_is_skipped_the_next_one_is_the_first() -> None:
    world = World(["net/a", "net/b", "pay/a", "pay/b"])
    world.facts["net/a"] = replace(world.facts["net/a"], is_disabled=True)
    world.settle()
    assert world.runners["net/a"].words == "it is disabled"
    assert [(each.path, each.wave) for each in world.updating] == [("net/b", 0)]


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (None, "it was removed"),
        (RunnerFacts("net/a", is_removing=True), "it is being removed"),
        (RunnerFacts("net/a", is_disabled=True), "it is disabled"),
        (RunnerFacts("net/z"), "it is now `net/z`"),
        (RunnerFacts("net/a", version="0.1.0"), "it has 0.1.0 already"),
    ],
)
def test_a_runner_that_needs_no_update_any_more_is_skipped_with_words(facts: RunnerFacts | None, words: str) -> None:
    world = World(["net/a"])
    world.facts = {"net/a": facts} if facts else {}
    world.settle()
    assert (world.runners["net/a"].status, world.runners["net/a"].words) == (S.SKIPPED, words)
    assert world.rollout.status is R.DONE
    assert not world.jobs


def test_a_newer_release_stops_it_after_the_current_wave() -> None:
    world = World(["net/a", "net/b", "pay/a", "x/a"])
    world.settle()
    world.release = ReleaseFacts(newer="0.1.0-rc.3")
    world.settle()
    assert world.rollout.status is R.ROLLING, "the first is being updated"
    world.end_job(world.updating[0], J.SUCCEEDED)
    world.settle()
    assert (world.rollout.status, world.rollout.stop_reason) == (R.STOPPED, "0.1.0-rc.3 was published")
    assert len(world.jobs) == 1


def test_a_newer_release_stops_one_that_is_paused() -> None:
    """It cannot be resumed any more. Until it ends, nobody else in the organization can start one, and none starts by itself."""
    world = World(["net/a", "net/b"])
    world.settle()
    world.rollout = world.rollout.to(R.PAUSED, NOW)
    world.release = ReleaseFacts(newer="0.1.0-rc.3")
    world.settle()
    assert world.rollout.status is R.PAUSED, "the first is being updated"
    world.end_job(world.updating[0], J.SUCCEEDED)
    world.settle()
    assert (world.rollout.status, world.rollout.stop_reason) == (R.STOPPED, "0.1.0-rc.3 was published")
    assert len(world.jobs) == 1


def test_the_withdrawal_of_its_release_stops_it_at_once() -> None:
    world = World(["net/a", "net/b"])
    world.settle()
    world.release = ReleaseFacts(withdrawn_reason="it loses logs")
    world.settle()
    assert (world.rollout.status, world.rollout.stop_reason) == (R.STOPPED, f"{NEW} was withdrawn: it loses logs")


def test_a_runner_with_another_job_is_waited_for() -> None:
    world = World(["net/a"])
    world.facts["net/a"] = RunnerFacts("net/a", version=OLD, open_job=12)
    world.settle()
    assert world.statuses == {"net/a": "waiting"}
    world.facts["net/a"] = RunnerFacts("net/a", version=OLD)
    world.settle()
    assert world.statuses == {"net/a": "updating"}
