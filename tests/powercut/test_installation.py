"""The power fails under a server, a runner and its executors; everything starts again on what the disk kept.

These are a few moments of many: `make powercut` tries the moment after every sync.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.powercut.recorder import Moment
from tests.powercut.run import DiskKind, live
from tests.thoroughness import thorough

pytestmark = [pytest.mark.feature("O4.salvaged", "O6.restart"), pytest.mark.timeout(300)]


def _signed(moments: Sequence[Moment[Any]]) -> Moment[Any]:
    """The name of the executor's record of itself has just become durable, and nothing else of the executor."""
    return next(
        moment for moment in moments if re.fullmatch(r".*/attempts/job_[^/]+", moment.after) and _is_signed(moment)
    )


def _is_signed(moment: Moment[Any]) -> bool:
    return any("pid" in names for names in moment.snapshot.folders.values())


def _away(moments: Sequence[Moment[Any]]) -> Moment[Any]:
    """The last state of both applies is synced: what was acknowledged is on the runner's disk, the server is away."""
    return [moment for moment in moments if moment.after.endswith("/outbox")][3]


@pytest.mark.parametrize(
    ("disk", "choices"), [("model", [_signed, _away]), pytest.param("ext4", [_away], marks=thorough)]
)
def test_no_promise_is_broken_by_a_power_cut(disk: DiskKind, choices: list[Any]) -> None:
    """Symptom: after a power cut soon after a start the job was stuck, its lock was held and its state was undelivered."""
    life = live(disk, lambda moments: [choice(moments) for choice in choices], is_short=True)
    assert life.promises == 1 + 2 + 4, "a runner, two jobs and two states of each"
    assert [(outcome.kind, outcome.violations) for outcome in life.outcomes if outcome.violations] == []


@thorough
def test_an_outbox_that_is_not_synced_is_noticed() -> None:
    """The checks can fail: with a disk that ignores the syncs of the outbox, an acknowledged state is lost."""
    life = live("model", lambda moments: [_away(moments)], is_short=True, ignoring="/outbox")
    assert any("that was acknowledged is lost" in violation for violation in life.outcomes[0].violations)
