"""What an engine prints of the secrets that it was given, with the real OpenTofu and a real executor."""

import base64

import msgspec
import pytest

from terracrew.plan_diff.document import DiffDocument
from terracrew.protocol.events import OutputsRead, PlanDescribed, PlanSummary
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import API, FakeExecutorHub

pytestmark = pytest.mark.engine

OF_RUNNER, OF_MODULE, OF_INPUT = "runner/secret+0123456789", 'module-secret-"quoted"-<&>', "input-secret-abcdefgh"
LEAKING = """
variable "db_password" {}
resource "terraform_data" "leak" {
  for_each = toset([var.db_password])
  input    = jsonencode({ password = var.db_password })
  provisioner "local-exec" { command = "env; env | base64 -w0; printf '%s' $AWS_SECRET_ACCESS_KEY | base64" }
}
output "address" { value = "postgres://app:${var.db_password}@db" }
output "name" { value = "web" }
"""


@pytest.mark.feature("J12.sensitive", "L5.executor")
async def test_secrets_of_runner_module_and_inputs_reach_neither_log_nor_plan_nor_shown_outputs(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """The runner's AWS_SECRET_ACCESS_KEY and the module's environment were printed, and base64 of the job's token passed."""
    spec = executors.spec(
        JobType.APPLY,
        module(executors.folder / "source", main=LEAKING),
        inputs={"db_password": OF_INPUT},
        environment={"SERVICE_TOKEN": OF_MODULE, "ORDINARY": "ordinary-value"},
    )
    environment = executors.start_of(None).environment | {"AWS_SECRET_ACCESS_KEY": OF_RUNNER}
    executor = await executors.run(spec, environment=environment)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    log = hub.log()
    for secret in (OF_RUNNER, OF_MODULE, OF_INPUT, API):
        encoded = base64.b64encode(secret.encode())
        assert secret.encode() not in log
        assert encoded[4:-4] not in log
        assert base64.b64encode(b"x" + secret.encode())[4:-4] not in log
        assert base64.b64encode(b"xx" + secret.encode())[4:-4] not in log
    assert OF_RUNNER.encode() in executor.printed
    assert b"ordinary-value" in log
    [summary] = hub.facts_of(PlanSummary)
    assert [change.address for change in summary.resources] == ['terraform_data.leak["***"]']
    [described] = hub.facts_of(PlanDescribed)
    diff = DiffDocument(described.content)
    assert [change.address for change in diff.page().resources] == ['terraform_data.leak["***"]']
    shown = msgspec.json.encode((diff.head, diff.page().resources)).decode()
    assert not [secret for secret in (OF_RUNNER, OF_MODULE, OF_INPUT, API) if secret in shown]
    [outputs] = hub.facts_of(OutputsRead)
    assert outputs.outputs["address"].is_sensitive
    assert outputs.outputs["address"].value == f"postgres://app:{OF_INPUT}@db"
    assert not outputs.outputs["name"].is_sensitive
