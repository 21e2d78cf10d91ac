"""Whole attempts with the real OpenTofu: a real executor process against a hub over real sockets."""

import base64
import json
import re
import stat
from pathlib import Path

import msgspec
import pytest

from terracrew.plan_diff.document import DiffDocument
from terracrew.protocol.events import (
    EngineUsed,
    OutputsRead,
    PlanDescribed,
    PlanSummary,
    ResourceChange,
    SourceResolved,
    StepStatus,
)
from terracrew.protocol.messages import BeginRefused, Begun
from terracrew.protocol.spec import JobType, StateSeed, Step
from terracrew.source_rules import archive
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import API, HUB, FakeExecutorHub
from tests.executor.engine_runs import statuses

pytestmark = pytest.mark.engine

GREETING = """
variable "name" { type = string }
resource "terraform_data" "greeting" { input = "hello ${var.name}" }
output "greeting" { value = terraform_data.greeting.output }
output "hush" {
  value     = "not for the log"
  sensitive = true
}
"""

OLD = 'resource "terraform_data" "old" { input = "old" }\n'
STATE = json.dumps(
    {
        "version": 4,
        "terraform_version": "1.12.6",
        "serial": 3,
        "lineage": "l",
        "outputs": {},
        "resources": [
            {
                "mode": "managed",
                "type": "terraform_data",
                "name": "old",
                "provider": 'provider["terraform.io/builtin/terraform"]',
                "instances": [
                    {
                        "schema_version": 0,
                        "attributes": {
                            "id": "1",
                            "input": {"value": "old", "type": "string"},
                            "output": {"value": "old", "type": "string"},
                            "triggers_replace": None,
                        },
                    }
                ],
            }
        ],
    }
).encode()
SHOW_ENVIRONMENT = """
resource "terraform_data" "teller" {
  provisioner "local-exec" { command = "tr '\\\\0' '\\\\n' < /proc/$PPID/environ" }
}
"""
LARGE = """
locals { piece = join("", [for i in range(1000) : "0123456789"]) }
resource "terraform_data" "large" {
  count = 30
  input = sensitive(join("", [for i in range(10) : local.piece]))
}
"""
CHECK = """variable "number" { default = 1 }
resource "terraform_data" "checked" {
  lifecycle {
    precondition {
      condition     = var.number > 2
      error_message = "one is not more than two"
    }
  }
}
"""


@pytest.mark.feature("J3.order", "J3.steps", "J11.numbers", "J11.resources")
async def test_a_plan_reports_its_steps_its_summary_and_what_a_terminal_would_show(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = module(executors.folder / "source", main=GREETING)
    executor = await executors.run(executors.spec(JobType.PLAN, source, inputs={"name": "you"}))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    steps = ("fetch", "inputs", "init", "plan")
    expected = [f"{step} {status}" for step in steps for status in ("RUNNING", "SUCCEEDED")]
    expected.insert(6, "validate SKIPPED")
    assert statuses(hub) == expected
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.add, summary.change, summary.destroy, summary.replace, summary.unchanged) == (1, 0, 0, 0, 0)
    assert summary.resources == [ResourceChange("terraform_data.greeting", "create")]
    assert summary.outputs == {"greeting": "create", "hush": "create"}
    [described] = hub.facts_of(PlanDescribed)
    diff = DiffDocument(described.content)
    assert diff.head.counts == {"create": 1}
    assert {each.name: each.is_sensitive for each in diff.head.outputs} == {"greeting": False, "hush": True}
    assert hub.facts_of(EngineUsed)[0].name == "tofu"
    assert hub.facts_of(SourceResolved)[0].digest.startswith("sha256:")
    assert hub.log() == executor.printed
    assert b"\x1b[1mPlan:\x1b[0m 1 to add" in hub.log(step="plan")
    assert (executor.directory / "done").exists()


@pytest.mark.feature("J3.checked")
async def test_a_flag_of_validate_is_a_reason_to_run_it(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    source = module(executors.folder / "source", main=GREETING)
    executor = await executors.run(
        executors.spec(JobType.PLAN, source, inputs={"name": "you"}, flags={Step.VALIDATE: ["-no-color"]})
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert "validate SUCCEEDED" in statuses(hub)
    assert b"The configuration is valid" in hub.log(step="validate")


@pytest.mark.feature("J3.checked")
async def test_a_plan_refuses_what_validate_would_refuse(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """The error is in no path that this plan evaluates, so only the validation can find it."""
    main = "locals { unused = no_such_thing.at_all }\n"
    executor = await executors.run(executors.spec(JobType.PLAN, module(executors.folder / "source", main=main)))
    assert await executor.exit_code() == 0, executor.said
    assert statuses(hub)[-3:] == ["validate SKIPPED", "plan RUNNING", "plan FAILED"]
    assert "Reference to undeclared resource" in hub.result.message


@pytest.mark.feature("J3.order", "J3.steps", "J12.stored", "J15.kept")
async def test_an_apply_delivers_its_outputs_and_its_states(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    source = module(executors.folder / "source", main=GREETING)
    executor = await executors.run(executors.spec(JobType.APPLY, source, inputs={"name": "you"}))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    [outputs] = hub.facts_of(OutputsRead)
    assert outputs.outputs["greeting"].value == "hello you"
    assert outputs.outputs["hush"].is_sensitive
    assert b"not for the log" not in hub.log()
    number, fact, content = hub.states[-1]
    assert (fact.serial, fact.origin) == (json.loads(content)["serial"], "engine")
    assert json.loads(content)["outputs"]["greeting"]["value"] == "hello you"
    assert content not in (executor.directory / "outbox").read_bytes(), "a state is encrypted on the disk"
    assert hub.begins == [(0, hub.begins[0][1])]
    assert number > hub.begins[0][1], "no state is written before the permit was given"


@pytest.mark.feature("J1.modules")
async def test_a_destroy_plan_shows_what_would_be_destroyed_and_changes_nothing(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    spec = executors.spec(
        JobType.PLAN, module(executors.folder / "source", main=OLD), state=StateSeed(3, content=STATE)
    )
    executor = await executors.run(msgspec.structs.replace(spec, is_destroy_plan=True))
    assert await executor.exit_code() == 0, executor.said
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.add, summary.destroy, summary.unchanged) == (0, 1, 0)
    assert summary.resources[0].action == "delete"
    assert (hub.begins, hub.states) == ([], [])


@pytest.mark.feature("J5.archive")
async def test_a_source_without_a_configuration_never_reaches_the_engine(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A wrong folder, with only a readme in it, destroyed everything: "2 destroyed", exit 0."""
    folder = executors.folder / "source"
    folder.mkdir()
    (folder / "README.md").write_text("no configuration")
    source = archive.pack(folder)
    executor = await executors.run(executors.spec(JobType.APPLY, source, state=StateSeed(3, content=STATE)))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert "the source has no configuration of tofu" in hub.result.message
    assert not any(fact.step == "init" and fact.status == "RUNNING" for fact in hub.facts_of(StepStatus))


@pytest.mark.feature("J3.order", "J3.steps")
async def test_a_destroy_removes_what_the_state_has(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    source = module(executors.folder / "source", main=GREETING)
    executor = await executors.run(executors.spec(JobType.APPLY, source, inputs={"name": "you"}))
    assert await executor.exit_code() == 0
    _, _, content = hub.states[-1]
    second = FakeExecutorHub()
    await second.start()
    try:
        again = ExecutorProcesses(second, executors.folder / "second")
        again.folder.mkdir()
        seed = StateSeed(3, size=len(content), content=content)
        executor = await again.run(again.spec(JobType.DESTROY, source, inputs={"name": "you"}, state=seed))
        assert await executor.exit_code() == 0, executor.said
        assert second.result.status == "SUCCEEDED", second.result
        [summary] = second.facts_of(PlanSummary)
        assert (summary.add, summary.destroy, summary.unchanged) == (0, 1, 0)
        assert second.begins[0][0] == 3
        assert json.loads(second.states[-1][2])["resources"] == []
        [outputs] = second.facts_of(OutputsRead)
        assert outputs.outputs == {}, "the outputs are read after a destroy, too"
    finally:
        await second.stop()


@pytest.mark.feature("J3.order")
async def test_a_failing_plan_says_why_and_skips_the_rest(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=CHECK)))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert hub.result.message == "plan failed: exit code 1: Resource precondition failed (main.tf:5)"
    assert statuses(hub)[-3:] == ["plan FAILED", "apply SKIPPED", "output SKIPPED"]
    assert hub.begins == []


@pytest.mark.feature("J15.own")
async def test_a_backend_of_the_modules_own_is_an_error_before_init(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = module(executors.folder / "source", main='terraform {\n  backend "s3" {}\n}\n')
    executor = await executors.run(executors.spec(JobType.PLAN, source))
    assert await executor.exit_code() == 0
    assert hub.result.message.startswith('inputs failed: main.tf:2 has a backend "s3" block')
    assert hub.log() == b""


@pytest.mark.feature("J15.own")
async def test_a_module_may_keep_its_own_backend(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    place = executors.folder / "own.tfstate"
    backend = f'terraform {{\n  backend "local" {{ path = "{place}" }}\n}}\n'
    source = module(executors.folder / "source", main=GREETING, backend=backend)
    executor = await executors.run(executors.spec(JobType.APPLY, source, inputs={"name": "you"}, backend="own"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert hub.states == []
    assert json.loads(place.read_text())["outputs"]["greeting"]["value"] == "hello you"


@pytest.mark.feature("J15.workspaces")
@pytest.mark.parametrize(("of_job", "status"), [({}, "SUCCEEDED"), ({"TF_WORKSPACE": "prod"}, "FAILED")])
async def test_a_workspace_of_the_runners_own_shell_concerns_no_job(
    hub: FakeExecutorHub, executors: ExecutorProcesses, of_job: dict[str, str], status: str
) -> None:
    """With TF_WORKSPACE in the shell that started a runner, every job failed there: TF_WORKSPACE is `prod`."""
    executors.environment["TF_WORKSPACE"] = "prod"
    source = module(executors.folder / "source", main='output "workspace" { value = terraform.workspace }\n')
    executor = await executors.run(executors.spec(JobType.APPLY, source, environment=of_job))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == status, hub.result
    if of_job:
        assert "TF_WORKSPACE is `prod`" in hub.result.message
    else:
        [read] = hub.facts_of(OutputsRead)
        assert read.outputs["workspace"].value == "default"


@pytest.mark.feature("J15.kept")
async def test_a_state_too_large_for_a_frame_goes_by_http_before_its_event(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=LARGE)))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    number, fact, content = hub.states[-1]
    assert not fact.is_inline
    assert fact.size == len(content) > 2 << 20
    assert number in hub.puts


@pytest.mark.feature("J15.kept")
async def test_a_large_state_to_start_from_is_fetched(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    hub.state, hub.state_version = STATE, 9
    seed = StateSeed(9, size=len(STATE))
    executor = await executors.run(
        executors.spec(JobType.PLAN, module(executors.folder / "source", main=""), state=seed)
    )
    assert await executor.exit_code() == 0, executor.said
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.destroy, summary.resources[0].address) == (1, "terraform_data.old")


@pytest.mark.feature("J11.numbers", "J11.resources")
async def test_a_resource_to_replace_is_counted_once_and_the_untouched_as_unchanged(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    both = json.loads(STATE)
    both["resources"].append(both["resources"][0] | {"name": "kept"})
    content = json.dumps(both).encode()
    main = OLD.replace("input", "triggers_replace = 1\n  input").replace("{", "{\n").replace(" }", "\n}")
    kept = 'resource "terraform_data" "kept" { input = "old" }\n'
    seed = StateSeed(1, size=len(content), content=content)
    source = module(executors.folder / "source", main=main, kept=kept)
    executor = await executors.run(executors.spec(JobType.PLAN, source, state=seed))
    assert await executor.exit_code() == 0, executor.said
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.add, summary.change, summary.destroy, summary.replace, summary.unchanged) == (0, 0, 0, 1, 1)
    assert summary.resources == [
        ResourceChange("terraform_data.old", "replace", "replaced because an attribute cannot change in place")
    ]
    assert b"1 to add, 0 to change, 1 to destroy" in hub.log()


async def test_a_state_that_moved_makes_the_job_plan_again_from_the_current_one(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.state, hub.state_version = STATE, 5
    hub.answer_begin = lambda version: Begun(5) if version == 5 else BeginRefused("state_moved", "the state moved")
    executor = await executors.run(
        executors.spec(JobType.APPLY, module(executors.folder / "source", main=OLD), state=StateSeed(4))
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    first, second = hub.facts_of(PlanSummary)
    assert (first.add, first.unchanged) == (1, 0)
    assert (second.add, second.unchanged) == (0, 1)
    assert [version for version, _ in hub.begins] == [4, 5]


@pytest.mark.feature("O3.fenced")
async def test_a_permit_that_is_refused_ends_the_job_with_the_servers_words(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.answer_begin = lambda _: BeginRefused("quarantine", "a state waits in quarantine")
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=OLD)))
    assert await executor.exit_code() == 0
    assert (hub.result.status, hub.result.message) == ("CANCELED", "stopped before apply: a state waits in quarantine")
    assert statuses(hub)[-2:] == ["apply SKIPPED", "output SKIPPED"]
    assert (hub.states, len(hub.begins)) == ([], 1)


@pytest.mark.feature("L5.executor", "X4.engine")
async def test_no_secret_of_terracrews_own_reaches_the_log_and_the_hub_credential_not_even_the_engine(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    tell = """
    resource "terraform_data" "teller" {
      provisioner "local-exec" {
        command = "env; echo a-secret-of-the-runner; printf 'half a-secret-of-'; echo the-runner"
      }
    }
    """
    source = module(executors.folder / "source", main=tell)
    executor = await executors.run(
        executors.spec(JobType.APPLY, source, environment={"TF_LOG": "trace", "REGION": "north"})
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    printed, log = executor.printed, hub.log()
    password = re.search(rb"TF_HTTP_PASSWORD=(\w+)", printed)
    assert password
    basic = base64.b64encode(b"attempt:" + password[1])
    assert API.encode() in printed
    assert HUB.encode() not in printed
    for secret in (HUB.encode(), API.encode(), password[1], basic, b"a-secret-of-the-runner"):
        assert secret not in log
        assert secret not in (executor.directory / "outbox").read_bytes()
    assert b"REGION=north" in log
    assert b"half ***" in log
    # The engine leaves one line open, which is ended before the next step begins.
    assert log.count(b"\n") == printed.count(b"\n") + 1


@pytest.mark.feature("J3.order")
async def test_the_log_of_an_engine_stays_in_its_step(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """With TF_LOG, an engine prints with which arguments it was started."""
    executors.environment["TF_LOG"] = "info"
    source = module(executors.folder / "source", main=SHOW_ENVIRONMENT)
    executor = await executors.run(executors.spec(JobType.PLAN, source))
    assert await executor.exit_code() == 0, executor.said
    assert b'"plan"' not in hub.log(step="init")
    assert b'"plan"' in hub.log(step="plan")


@pytest.mark.feature("J13.token", "J13.variables")
async def test_a_job_has_its_built_in_environment(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    source = module(executors.folder / "source", main=SHOW_ENVIRONMENT)
    forged = {"TERRACREW_GROUP_PATH": "forged", "TF_TOKEN_127_0_0_1": "forged"}
    executor = await executors.run(
        executors.spec(JobType.APPLY, source, environment=forged), discovery_host="my-crew.example:8443"
    )
    assert await executor.exit_code() == 0
    printed = executor.printed.decode()
    assert "TERRACREW_GROUP_PATH=acme\n" in printed
    assert f"TERRACREW_ENDPOINT={hub.url}\n" in printed
    assert f"TF_TOKEN_127_0_0_1={API}\n" in printed
    assert f"TF_TOKEN_127_0_0_1:{hub.url.rpartition(':')[2]}={API}\n" in printed
    assert f"TF_TOKEN_my__crew_example={API}\n" in printed
    assert f"TF_TOKEN_my__crew_example:8443={API}\n" in printed


@pytest.mark.feature("J6.inputs")
async def test_what_is_set_on_a_module_wins_over_its_own_files(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    folder = executors.folder / "source"
    module(folder, main=GREETING)
    (folder / "zzz.auto.tfvars").write_text('name = "nobody"\n')
    executor = await executors.run(executors.spec(JobType.APPLY, archive.pack(folder), inputs={"name": "you"}))
    assert await executor.exit_code() == 0, executor.said
    assert hub.facts_of(OutputsRead)[0].outputs["greeting"].value == "hello you"
    inputs = executor.directory / "workspace" / "~terracrew.auto.tfvars.json"
    assert stat.S_IMODE(inputs.stat().st_mode) == 0o600


@pytest.mark.feature("J4.missing")
async def test_a_missing_engine_is_said_before_anything_runs(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    executor = await executors.run(
        executors.spec(JobType.PLAN, module(executors.folder / "source", main=OLD), engine="terraform")
    )
    assert await executor.exit_code() == 0
    assert hub.result.status == "FAILED"
    assert "Terraform is not on this machine" in hub.result.message
    assert "terracrew engine install terraform" in hub.result.message
    assert not (executor.directory / "workspace").exists()
