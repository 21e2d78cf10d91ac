"""What the server is told of executors that run."""

import pytest

from terracrew.protocol.messages import AttemptRef, WaitingStart
from terracrew.runner.attempts.executor_starts import CONNECT_SECONDS, StartedExecutors

pytestmark = pytest.mark.feature("D6.watched")
REF = AttemptRef("job_1", 1)
TEXT = "its executor runs, but has not connected: can it reach http://server?"


def test_the_time_counts_from_the_moment_when_the_start_waits_for_nothing_any_more() -> None:
    started = StartedExecutors()
    started.connect_to(REF, "http://server")
    pulling = [WaitingStart("job_1", 1, "pulling")]
    assert started.starts({REF: "pulling"}, 0.0) == pulling
    assert started.starts({REF: "pulling"}, 900.0) == pulling
    assert started.starts({REF: ""}, 910.0) == []
    assert started.starts({REF: ""}, 909.9 + CONNECT_SECONDS) == []
    assert started.starts({REF: ""}, 910.0 + CONNECT_SECONDS) == [WaitingStart("job_1", 1, TEXT, CONNECT_SECONDS)]
    assert started.starts({REF: "pulling"}, 950.0) == pulling
    assert started.starts({REF: ""}, 951.0) == [], "another process begins from nothing"


def test_an_attempt_that_has_ended_is_forgotten() -> None:
    started = StartedExecutors()
    started.connect_to(REF, "http://server")
    started.starts({REF: ""}, 0.0)
    started.forget(REF)
    assert started.starts({REF: ""}, 100.0) == []
    assert started.starts({}, 100.0) == []
