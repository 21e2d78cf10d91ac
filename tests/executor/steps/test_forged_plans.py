"""What a plan is said to do comes from the plan itself. Code of a module tries to say something else. The real OpenTofu runs."""

import pytest

from terracrew.executor.isolation import landlock
from terracrew.protocol.events import OutputsRead, PlanDescribed, PlanSummary
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, wrapped

pytestmark = [pytest.mark.engine, pytest.mark.feature("J8.same")]

ENCRYPTED = """
terraform {
  encryption {
    key_provider "external" "x" { command = ["/bin/sh", "./key.sh"] }
    method "aes_gcm" "m" { keys = key_provider.external.x }
    plan { method = method.aes_gcm.m }
  }
}
"""
REPLACING_KEY = r"""
folder=$(dirname "$TF_PLUGIN_CACHE_DIR")
(
  for i in $(seq 600); do
    for file in "$folder"/*.jsonl; do [ -s "$file" ] && : > "$file.new" && mv "$file.new" "$file" && exit; done
    sleep 0.005
  done
) > /dev/null 2>&1 < /dev/null &
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
read request
key=AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
echo "{\"keys\":{\"encryption_key\":\"$key\",\"decryption_key\":\"$key\"},\"meta\":{\"external_data\":{}}}"
"""
"""A program that OpenTofu runs while it plans. It replaces what OpenTofu writes beside the plan with an empty file."""


@pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")
async def test_code_that_runs_during_a_plan_cannot_change_what_the_plan_is_said_to_do(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """The summary was all zero, so no limit for what is destroyed applied, and there was no diff. Then a resource was made."""
    folder = executors.folder / "source"
    folder.mkdir()
    (folder / "key.sh").write_text(REPLACING_KEY)
    source = module(folder, main=SMALL_MODULE + ENCRYPTED)
    executor = await executors.run(executors.spec(JobType.APPLY, source), isolation=IsolationSettings())
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.add, [each.address for each in summary.resources]) == (1, ["terraform_data.it"])
    assert len(hub.facts_of(PlanDescribed)) == 1


FORGED_PLAN = '{"format_version":"1.2"}'
FORGED_OUTPUTS = '{"it":{"value":"EVIL","type":"string","sensitive":false}}'


@pytest.mark.parametrize(("command", "forged"), [("show", FORGED_PLAN), ("output", FORGED_OUTPUTS)])
async def test_a_program_below_the_engine_cannot_rewrite_what_the_engine_prints_for_the_executor(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, command: str, forged: str
) -> None:
    """A provider opened /proc/PPID/fd/1, which was a file in memory, and put another description of the plan there."""
    rewriting = f"sh -c 'printf %s \"$0\" | dd of=/proc/$PPID/fd/1' '{forged}'"
    program = wrapped(
        executors, tofu, f'if [ "$1" = {command} ]; then {tofu} "$@"; code=$?; {rewriting}; exit $code; fi'
    )
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert b"No such device or address" in hub.log(), "the program tried it"
    assert hub.facts_of(PlanSummary)[0].add == 1
    assert hub.facts_of(OutputsRead)[0].outputs["it"].value == "made"


async def test_a_long_description_of_a_plan_arrives_complete(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    """The engine waits until the executor has read what does not fit into the buffers of the kernel."""
    program = wrapped(executors, tofu, 'if [ "$1" = show ]; then head -c 150000000 /dev/zero | tr "\\0" " "; fi')
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert hub.facts_of(PlanSummary)[0].add == 1
