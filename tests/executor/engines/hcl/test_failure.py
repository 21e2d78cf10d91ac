"""The reason of a failure, from what OpenTofu and Terraform printed."""

import pytest

from terracrew.executor.engines import error_summary
from terracrew.executor.engines.hcl import failure

pytestmark = pytest.mark.feature("J15.held")
INFO = """│ Lock Info:
│   ID:        5ce1c1a2-0c1f-8b43
│   Path:      network.tfstate
│   Operation: OperationTypeApply
│   Who:       maria@laptop
│   Version:   1.12.1
│   Created:   2026-11-16 17:30:12.5 +0000 UTC
│   Info:
│
"""


def printed(reason: str, info: str = INFO) -> str:
    return f"╷\n│ Error: Error acquiring the state lock\n│\n│ Error message: {reason}\n{info}│ OpenTofu acquires a state lock\n╵\n"


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    "error",
    [
        "Plugin did not respond\n│ \n│   with testing_file.each[1],\n│   on main.tf line 6",
        "The terraform-provider-testing_v1.0.0 plugin crashed!",
        "Plugin error\n│ \n│ The plugin returned an unexpected error from\n│ plugin.(*GRPCProvider).ApplyResourceChange",
        "Request cancelled\n│ \n│ The plugin.(*GRPCProvider).ApplyResourceChange request was cancelled.",
        "creating\n│ \n│ rpc error: code = Unavailable desc = error reading from server: EOF",
        "Failed to create local state file",
    ],
)
def test_an_apply_whose_provider_ended_without_an_answer_does_not_know_all_of_its_changes(error: str) -> None:
    assert failure.has_lost_changes(f"╷\n│ Error: {error}\n╵\n")
    assert failure.has_lost_changes(f"\nError: {error}\n")


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(
    "line",
    [
        "terraform_data.a (local-exec): rpc error: code = Unavailable desc = error reading from server: EOF",
        "│ Error: local-exec provisioner error",
        "terraform_data.a (local-exec): Error: Plugin did not respond",
    ],
)
def test_what_a_script_prints_is_not_taken_for_the_end_of_a_provider(line: str) -> None:
    assert not failure.has_lost_changes(f"{line}\n")


@pytest.mark.parametrize(
    "reason",
    [
        "resource temporarily unavailable",
        "HTTP remote state already locked:\n│ ID=5ce1c1a2-0c1f-8b43",
        "operation error S3: PutObject, https response error\n│ StatusCode: 412, api error PreconditionFailed",
    ],
)
def test_a_lock_that_another_run_holds_is_named(reason: str) -> None:
    text = printed(reason)
    found = error_summary.failure(1, failure.details(text), 0, text)
    assert found.failure_kind == "state_locked"
    assert "locked by maria@laptop since 2026-11-16 17:30:12.5 +0000 UTC (lock ID 5ce1c1a2-0c1f-8b43)" in found.text


@pytest.mark.parametrize(
    "text",
    [
        printed("Unexpected HTTP response code 500: internal server error", info="│\n"),
        printed("dial tcp 10.0.0.1:5432: connect: connection refused"),
        printed("dial tcp 10.0.0.1:5432: i/o timeout", info="│\n") + INFO,
    ],
)
def test_a_lock_that_cannot_be_asked_for_keeps_its_retries(text: str) -> None:
    found = error_summary.failure(1, failure.details(text), 0, text)
    assert found.failure_kind == ""
    assert error_summary.is_transient(text)


def test_what_a_program_of_the_module_prints_about_a_lock_is_not_the_engine_s_own_error() -> None:
    text = "".join(f"terraform_data.x (local-exec): {line}\n" for line in printed("held").splitlines())
    assert failure.held_lock(text) == ""
