"""Texts of people and executors are bounded, and show nothing but themselves."""

import msgspec
import pytest

from terracrew.api.jobs import MAX_TEXT_CHARACTERS, plain
from terracrew.protocol.messages import AttemptRef
from terracrew.server.dashboard.jobs.handlers import MAX_DOUBTS_CHARACTERS, ApproveForm


def test_the_doubts_of_a_form_that_no_page_has_sent_are_passed_over() -> None:
    """A form whose doubt ended in 5,000 digits was answered with 500."""
    form = ApproveForm(1, f"job_a.2 job_b.{'9' * 5_000} job_c.x job_d. job_e.\u0663")
    assert form.seen == [AttemptRef("job_a", 2)]
    with pytest.raises(msgspec.ValidationError, match="length"):
        msgspec.convert({"plan": 1, "doubts": "x" * (MAX_DOUBTS_CHARACTERS + 1)}, ApproveForm)


def test_a_text_from_outside_cannot_control_a_terminal() -> None:
    """The message of a result reached the operator's terminal with its control sequences, and cleared the screen."""
    assert plain("\x1b[2Japply\x1b]0;title\x07 failed:\n\tno\0room\x9b1A") == "apply failed:\n\tno\ufffdroom"
    assert len(plain("x" * 2 * MAX_TEXT_CHARACTERS)) == MAX_TEXT_CHARACTERS
