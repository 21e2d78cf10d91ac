"""Each way in which a job can end without success has a class: who can mend it."""

import re
from pathlib import Path
from typing import get_args

import pytest

import terracrew
from terracrew.api.failures import CLASS_OF_KIND, FAILURE_CLASSES, class_of
from terracrew.api.jobs import TERMINAL, JobStatus
from terracrew.protocol.events import FailureKind
from terracrew.protocol.spec import Step
from terracrew.wording import module_words

_S = JobStatus
SOURCES = Path(terracrew.__file__).parent


@pytest.mark.feature("P2.classes")
@pytest.mark.parametrize(
    ("status", "kind", "step", "expected"),
    [
        (_S.FAILED, "", None, "infrastructure"),
        (_S.FAILED, "lost", None, "infrastructure"),
        (_S.FAILED, "set_back", None, "infrastructure"),
        (_S.FAILED, "disk_full", Step.PLAN, "infrastructure"),
        (_S.FAILED, "out_of_memory", Step.APPLY, "infrastructure"),
        (_S.FAILED, "", Step.FETCH, "infrastructure"),
        (_S.FAILED, "", Step.INIT, "engine"),
        (_S.FAILED, "", Step.VALIDATE, "engine"),
        (_S.FAILED, "", Step.PLAN, "engine"),
        (_S.FAILED, "", Step.APPLY, "engine"),
        (_S.FAILED, "", Step.DESTROY, "engine"),
        (_S.FAILED, "", Step.OUTPUT, "engine"),
        (_S.FAILED, "hook", Step.PLAN, "policy"),
        (_S.FAILED, "policy", Step.PLAN, "policy"),
        (_S.FAILED, "time_limit", Step.APPLY, "policy"),
        (_S.FAILED, "process_limit", Step.INIT, "policy"),
        (_S.FAILED, "", Step.INPUTS, "user"),
        (_S.FAILED, "inputs", None, "user"),
        (_S.FAILED, "state_locked", Step.PLAN, "user"),
        (_S.FAILED, "state_moved", None, "user"),
        (_S.FAILED, "of_a_newer_executor", Step.APPLY, "engine"),
        (_S.FAILED, "of_a_newer_executor", None, "infrastructure"),
        (_S.CANCELED, "", Step.APPLY, "user"),
        (_S.CANCELED, "lost", None, "infrastructure"),
        (_S.DECLINED, "", None, "user"),
        (_S.SUCCEEDED, "", None, None),
        (_S.QUEUED, "", None, None),
        (_S.PROCESSING, "", Step.PLAN, None),
    ],
)
def test_a_job_that_ended_without_success_has_a_class(
    status: JobStatus, kind: str, step: Step | None, expected: str | None
) -> None:
    assert class_of(status, kind, step) == expected


@pytest.mark.feature("P2.classes")
def test_every_kind_of_failure_that_the_code_produces_has_a_class_and_words() -> None:
    """A kind is written in the protocol's list, or in the sources where the server decides."""
    written = {
        kind for file in SOURCES.rglob("*.py") for kind in re.findall(r"failure_kind=\"([a-z_]+)\"", file.read_text())
    }
    assert {"lost", "inputs", "set_back", "state_moved"} <= written
    produced = written | set(get_args(FailureKind)) - {""}
    assert produced <= set(CLASS_OF_KIND)
    assert produced <= set(module_words.FAILURE_KINDS)


@pytest.mark.feature("P2.classes")
def test_every_class_has_words_and_every_step_of_every_end_has_a_class() -> None:
    assert set(module_words.FAILURE_CLASSES) == set(module_words.FAILURE_ADVICE) == set(FAILURE_CLASSES)
    for status in TERMINAL - {_S.SUCCEEDED}:
        assert all(class_of(status, "", step) in FAILURE_CLASSES for step in [None, *Step])
