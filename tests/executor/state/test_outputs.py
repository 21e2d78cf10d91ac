"""Outputs: larger than any record, encrypted on their way, and never a reason for a change that is done to count as failed."""

import hashlib
import json

import pytest

from terracrew.protocol.events import MAX_RECORD_BYTES, OutputsRead, StepStatus, Stream
from terracrew.protocol.spec import JobType, Step
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub, unseal
from tests.executor.engine_runs import wrapped

pytestmark = [pytest.mark.engine, pytest.mark.feature("J12.stored")]
LARGE = """
locals { kilobyte = join("", [for i in range(64) : "0123456789abcdef"]) }
output "large" {
  value = [for i in range(1000) : "${local.kilobyte}${local.kilobyte}${local.kilobyte}${local.kilobyte}${local.kilobyte}"]
  sensitive = true
}
"""


async def test_outputs_larger_than_any_record_are_delivered_and_the_job_succeeds(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A completed apply was FAILED: "a record of 5,000,235 bytes is larger than the protocol allows"."""
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=LARGE)))
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message) == ("SUCCEEDED", ""), hub.result
    [told] = hub.facts_of(OutputsRead)
    assert (told.outputs, told.is_inline) == ({}, False)
    number = 1 + next(i for i, record in enumerate(hub.records) if record.payload.startswith(b'{"type":"outputs"'))
    sealed, is_plain = hub.puts[number]
    assert not is_plain
    assert b"0123456789abcdef" not in sealed
    content = unseal(sealed)
    assert len(content) > MAX_RECORD_BYTES
    assert hashlib.sha256(content).hexdigest() == told.sha256
    assert json.loads(content)["large"]["value"][999].startswith("0123456789abcdef")


@pytest.mark.parametrize(
    ("script", "message", "status"),
    [
        ('echo "Error: no outputs today" >&2; exit 1', "output failed: exit code 1: no outputs today", "FAILED"),
        (
            "head -c 8388609 /dev/zero; exit 0",
            "outputs of 8,388,609 bytes, and at most 8,388,608 are kept",
            "",
        ),
    ],
    ids=["not readable", "too large"],
)
async def test_outputs_that_are_not_kept_leave_a_job_that_succeeded_with_a_warning(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, script: str, message: str, status: str
) -> None:
    """Outputs of up to 256 MiB were sent, and the server stood still while it decoded them."""
    program = wrapped(executors, tofu, f'case "$1" in output) {script};; esac')
    source = module(executors.folder / "source", main='resource "terraform_data" "a" {}\n')
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"
    assert hub.result.message.startswith("applied, but its outputs are not kept: ")
    assert hub.result.message.endswith(message)
    assert b"its outputs are not kept" in hub.log(Stream.SYSTEM)
    assert not hub.facts_of(OutputsRead)
    if status:
        assert StepStatus(Step.OUTPUT, status, 1, is_cut_short=False) in hub.facts
