"""The reason of a failure, from what Pulumi printed."""

import pytest

from terracrew.executor.engines.pulumi import failure

pytestmark = pytest.mark.feature("J4.pulumi")
FAILED = """Updating (terracrew):
 +  testing:index:File second creating (0s) error: cannot create the file: no space left on device
Diagnostics:
  pulumi:pulumi:Stack (contract-terracrew):
    error: update failed

  testing:index:File (second):
    error: cannot create the file: no space left on device
"""


def test_the_reason_is_named_with_its_resource_and_not_that_the_command_failed() -> None:
    assert failure.first_error(FAILED) == "cannot create the file: no space left on device (second)"


def test_a_command_that_says_only_that_it_failed_is_quoted() -> None:
    assert failure.first_error("error: update failed\n") == "update failed"
    assert failure.first_error("error: no stack named 'x' found\n") == "no stack named 'x' found"
    assert failure.first_error("a line\nan error: of somebody else\n") == ""


def test_an_engine_that_did_not_wait_for_its_changes_is_recognized() -> None:
    assert failure.INTERRUPTED.search("…\n^C received; cancelling. If you would like to terminate immediately, …\n")
    assert not failure.GAVE_UP.search("^C received; cancelling. If you would like to terminate immediately, …\n")
    for text in ("^C received; terminating\n", "panic: runtime error\n", "x\nfatal error: out of memory\n"):
        assert failure.GAVE_UP.search(text)
    assert failure.details("fatal error: runtime: out of memory\n").memory_error


def test_a_reason_is_bounded() -> None:
    assert len(failure.first_error("error: " + "x" * 100_000)) == 500
