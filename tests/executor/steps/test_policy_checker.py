"""The recipe of docs/hooks.md with a real policy checker, Open Policy Agent, and the real OpenTofu."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from terracrew.executor.engines.hcl import plan_for_hooks
from terracrew.protocol.spec import Hook, JobType, StateSeed, Step, StepHook
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE
from tests.executor.saved_plan.waiting_plans import another_instance
from tests.machine import platforms

pytestmark = [pytest.mark.engine, pytest.mark.platform("opa"), pytest.mark.feature("H1.plan")]
DOCS = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text()
DOCUMENTED_FOLDER = "/etc/terracrew/policies"
ACL = {"address": "aws_s3_bucket_acl.a", "type": "aws_s3_bucket_acl"}


def block(language: str, word: str) -> str:
    """The block of the page that has this word."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL) if word in text)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "terracrew.rego").write_text(block("rego", "package terracrew"))
    return folder


@pytest.fixture
def check(policies: Path) -> StepHook:
    script = block("sh", "opa eval").replace(DOCUMENTED_FOLDER, str(policies))
    return StepHook(Step.PLAN, "after", Hook(script), "acme")


async def planned(executors: ExecutorProcesses, check: StepHook, policies: Path, main: str, state: StateSeed) -> str:
    """Apply a module under the policy, and return what the job says at its end."""
    opa = Path(platforms.need("opa"))
    executors.environment["PATH"] = f"{opa.parent}:/usr/bin:/bin"
    spec = executors.spec(JobType.APPLY, module(executors.folder / "source", main=main), hooks=[check], state=state)
    executor = await executors.run(spec, isolation=IsolationSettings(read_paths=[str(policies)]))
    assert await executor.exit_code() == 0, executor.said
    return f"{executors.hub.result.status} {executors.hub.result.message}".strip()


async def test_the_policy_lets_a_plan_pass_and_refuses_one_that_destroys(
    hub: FakeExecutorHub, executors: ExecutorProcesses, check: StepHook, policies: Path, tmp_path: Path
) -> None:
    async with another_instance(tmp_path / "earlier") as at:
        at.hub.needs_approval = False
        assert await planned(at, check, policies, SMALL_MODULE, StateSeed(0)) == "SUCCEEDED", at.hub.log()
        content = at.hub.states[-1][2]
    state, failed = (
        StateSeed(4, size=len(content), content=content),
        "FAILED plan failed: the hook after plan of `acme`",
    )
    assert await planned(executors, check, policies, "# nothing is left\n", state) == f"{failed} ended with exit code 1"
    assert b"terraform_data.it would be destroyed" in hub.log()
    assert hub.begins == []


async def test_without_its_policies_the_check_fails(
    hub: FakeExecutorHub, executors: ExecutorProcesses, check: StepHook, policies: Path
) -> None:
    (policies / "terracrew.rego").write_text("package another\n")
    assert (await planned(executors, check, policies, SMALL_MODULE, StateSeed(0))).startswith("FAILED plan failed")
    assert hub.begins == []


def test_the_policy_refuses_a_preview_of_pulumi(check: StepHook, tmp_path: Path) -> None:
    """It has no `resource_changes`, in which the other rules would find nothing."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"steps":[{"op":"delete"}],"changeSummary":{"delete":1}}')
    done = _run(check, plan)
    assert done.returncode != 0
    assert "this is not a plan of OpenTofu or Terraform" in done.stdout


@pytest.mark.parametrize(
    ("acl", "is_sensitive", "is_denied"),
    [("private", False, False), ("public-read", False, True), ("private", True, True)],
)
def test_a_list_of_what_is_allowed_refuses_a_masked_value(
    check: StepHook, tmp_path: Path, acl: str, is_sensitive: bool, is_denied: bool
) -> None:
    change = {"actions": ["create"], "before": None, "after": {"acl": acl}, "after_sensitive": {"acl": is_sensitive}}
    document = {"format_version": "1.2", "resource_changes": [{**ACL, "change": change}]}
    plan = tmp_path / "plan.json"
    plan.write_bytes(plan_for_hooks.masked(json.dumps(document).encode(), str))
    done = _run(check, plan)
    assert (done.returncode != 0) is is_denied, done
    assert ("aws_s3_bucket_acl.a: the ACL" in done.stdout) is is_denied


def _run(check: StepHook, plan: Path) -> subprocess.CompletedProcess[str]:
    variables = {"PATH": f"{Path(platforms.need('opa')).parent}:/usr/bin:/bin", "TERRACREW_PLAN_JSON": str(plan)}
    return subprocess.run(["sh", "-c", check.hook.script], env=variables, capture_output=True, text=True, check=False)
