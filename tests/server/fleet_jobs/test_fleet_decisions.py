"""What becomes of a fleet job, through any order of claims, crashes, silences, ends and cancels, by the functions that decide it."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetOutcome
from terracrew.errors import Conflict
from terracrew.server.fleet_jobs import decide

pytestmark = pytest.mark.feature("W4.fleet")
SERVERS = st.sampled_from(["srv_1", "srv_2"])
OUTCOMES = st.sampled_from(["succeeded", "failed", "canceled"])


class FleetJobMachine(RuleBasedStateMachine):
    """One job, and what servers believe about it, which may be old."""

    @initialize(type_=st.sampled_from(list(FleetJobType)))
    def create(self, type_: FleetJobType) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.job = FleetJob(
            id="fjb_1",
            organization_id="org_1",
            group_id="grp_1",
            number=1,
            type=type_,
            status=FleetJobStatus.QUEUED,
            attempt=1,
            target_id="rnr_1",
            target_name="burst",
            runner_id="rnr_1",
            identity_id="cid_1",
            spec={},
            due_at=self.now,
            created_by="usr_1",
            created_by_name="marta",
            created_at=self.now,
        )
        self.claims: list[tuple[str, int]] = []
        """Who was given which attempt."""
        self.ended: FleetJob | None = None

    def _move(self, after: FleetJob | None) -> bool:
        if after is None:
            return False
        assert after.attempt >= self.job.attempt, "attempts are never counted back"
        assert len(after.losses) >= len(self.job.losses)
        if self.job.canceled_at is not None:
            assert after.canceled_at == self.job.canceled_at, "a cancel is never taken back"
        self.job = after
        return True

    @rule(seconds=st.sampled_from([0, 1, 5, 29, 31, 120]))
    def time_passes(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(server=SERVERS, is_busy=st.booleans())
    def claim(self, server: str, is_busy: bool) -> None:
        after = decide.claim(self.job, self.job.attempt, server, self.now, is_target_busy=is_busy)
        if self._move(after):
            assert not is_busy
            self.claims.append((server, self.job.attempt))

    @rule(server=SERVERS, attempt=st.integers(1, 6))
    def begin(self, server: str, attempt: int) -> None:
        if self._move(decide.begin(self.job, attempt, server, self.now)):
            assert (server, attempt) == self.claims[-1]

    @rule(server=SERVERS, attempt=st.integers(1, 6))
    def renew(self, server: str, attempt: int) -> None:
        if self._move(decide.renew(self.job, attempt, server, self.now)):
            assert (server, attempt) == self.claims[-1]
            assert decide.expire(self.job, self.now) is None

    @rule()
    def sweep(self) -> None:
        before = self.job
        if self._move(decide.expire(before, self.now)):
            assert before.lease_until is not None
            assert before.lease_until <= self.now

    @rule(server=SERVERS, attempt=st.integers(1, 6))
    def crash(self, server: str, attempt: int) -> None:
        if self._move(decide.lose(self.job, attempt, server, "the process was killed", self.now)):
            assert (server, attempt) == self.claims[-1]

    @rule(server=SERVERS, attempt=st.integers(1, 6), outcome=OUTCOMES)
    def finish(self, server: str, attempt: int, outcome: FleetOutcome) -> None:
        was_canceled = self.job.canceled_at is not None
        if self._move(decide.finish(self.job, attempt, server, outcome, "words", self.now)):
            assert (server, attempt) == self.claims[-1], "only the last attempt ends a job"
            assert self.job.is_terminal
            if self.job.status is FleetJobStatus.CANCELED:
                assert was_canceled, "nobody's job ends as canceled unless a person has canceled it"

    @rule()
    def cancel(self) -> None:
        if self.job.is_terminal:
            with pytest.raises(Conflict):
                decide.cancel(self.job, "marta", self.now)
        else:
            was_queued, has_run = self.job.status is FleetJobStatus.QUEUED, bool(self.claims)
            if self._move(decide.cancel(self.job, "marta", self.now)) and was_queued and not has_run:
                assert self.job.status is FleetJobStatus.CANCELED

    @invariant()
    def it_is_consistent(self) -> None:
        job = self.job
        assert (job.server_id is not None) == (job.lease_until is not None) == job.is_active
        assert (job.finished_at is not None) == job.is_terminal
        assert job.attempt == len(job.losses) + (0 if job.is_terminal and len(job.losses) == job.attempt else 1)
        assert job.attempt <= decide.MAX_ATTEMPTS
        assert len({attempt for _, attempt in self.claims}) == len(self.claims), "an attempt is given once"
        if job.status is FleetJobStatus.FAILED:
            assert job.error
        if self.ended is not None:
            assert job == self.ended, "terminal is terminal"
        elif job.is_terminal:
            self.ended = job


TestFleetJob = FleetJobMachine.TestCase


def test_the_error_of_a_job_that_was_given_up_has_its_history() -> None:
    machine = FleetJobMachine()
    machine.create(FleetJobType.DEPLOY_WORKER)
    for _ in range(decide.MAX_ATTEMPTS):
        machine.time_passes(120)
        machine.claim("srv_1", is_busy=False)
        machine.crash("srv_1", machine.job.attempt)
        machine.it_is_consistent()
    assert machine.job.status is FleetJobStatus.FAILED
    assert machine.job.error.startswith("it was given up after 5 attempts (1: the process was killed; 2: ")
