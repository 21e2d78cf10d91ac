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


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    "error",
    [
        "error: error reading from server: EOF",
        "error: error reading from server: read tcp 127.0.0.1:4->127.0.0.1:5: read: connection reset by peer",
        "error: transport is closing",
        "error: rpc error: code = Unavailable desc = closing transport due to: connection error",
        "error: \n\n        Detected that /bin/pulumi-resource-testing exited prematurely. \n",
        "error: post-step event returned an error: failed to save snapshot: access denied",
    ],
)
def test_an_update_whose_plug_in_ended_without_an_answer_does_not_know_all_of_its_changes(error: str) -> None:
    """Pulumi takes the operation out of its state as one that failed, and ends by itself."""
    text = FAILED.replace("error: cannot create the file: no space left on device", error)
    assert failure.has_lost_changes(text)
    assert not failure.has_lost_changes(FAILED)


@pytest.mark.feature("J15.held")
def test_a_lock_that_another_run_holds_is_named() -> None:
    held = (
        "error: the stack is currently locked by 1 lock(s). Either wait for the other process(es) to end or delete …\n"
    )
    holder = "  file:///states/.pulumi/locks/a/b/c.json: created by maria@laptop (pid 71) at 2026-11-16T17:30:12Z\n"
    assert failure.details(held + holder).held_lock == "locked by maria@laptop (pid 71) since 2026-11-16T17:30:12Z"
    assert failure.details(held).held_lock == "locked by another run"
    assert failure.details("error: could not list the locks: connection refused\n").held_lock == ""


def test_a_reason_is_bounded() -> None:
    assert len(failure.first_error("error: " + "x" * 100_000)) == 500
