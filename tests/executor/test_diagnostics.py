"""What an executor prints about itself has no secrets in it, not even in the traceback of a bug."""

import os
import sys
import traceback
from pathlib import Path

import pytest

from terracrew.executor import startup
from terracrew.executor.startup import MaskedStream
from terracrew.masking.redactor import Redactor

SECRET = "hunter2-hunter2"


@pytest.mark.feature("L5.executor")
def test_a_traceback_is_masked_and_written_at_once(tmp_path: Path) -> None:
    """The log of an executor had the message of an error that quoted a password."""
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_CREAT)
    stream = MaskedStream(Redactor([SECRET]), descriptor)
    try:
        raise RuntimeError(f"the password {SECRET} is \udc80 wrong")
    except RuntimeError:
        traceback.print_exc(file=stream)
    text = (tmp_path / "log").read_text()
    os.close(descriptor)
    assert SECRET not in text
    assert "the password *** is" in text
    assert "Traceback" in text


def test_everything_that_the_process_prints_goes_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    startup.mask_output(Redactor([]))
    assert isinstance(sys.stdout, MaskedStream)
    assert isinstance(sys.stderr, MaskedStream)
