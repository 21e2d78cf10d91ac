"""A configuration that was written for the bare engine works in Terracrew as before, or is refused with the way out."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid
from tests.e2e.command_line import terracrew
from tests.e2e.system import System
from tests.machine import providers

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

WORKSPACE = 'output "workspace" { value = terraform.workspace }\n'
VARIABLE: dict[str, Any] = {"target": "environment", "name": "TF_WORKSPACE", "value": "prod"}


@pytest.mark.feature("J15.workspaces")
def test_a_workspace_is_refused_where_the_state_has_none(system: System) -> None:
    """TF_WORKSPACE=prod was accepted, listed as given and dropped: `terraform.workspace` was `default`."""
    system.start_server(runner=True)
    system.module("app", WORKSPACE)
    with pytest.raises(Invalid, match="TF_WORKSPACE is `prod`, but Terracrew holds the state of this module"):
        system.api.patch("/modules/app", {"environment": {"TF_WORKSPACE": "prod"}})
    system.api.post("/inputs", {"place": "/", **VARIABLE})
    failed = system.wait(system.run("app", "APPLY"))
    assert failed["status"] == "FAILED"
    assert "TF_WORKSPACE is `prod`" in failed["message"]
    assert "create a module for each workspace" in failed["message"]
    own = {"environment": {"TF_WORKSPACE": "default"}}
    assert system.wait(system.run("app", "APPLY", **own))["status"] == "SUCCEEDED"


@pytest.mark.feature("J15.workspaces", "J15.own")
def test_a_workspace_of_the_modules_own_backend_is_used(system: System) -> None:
    system.start_server(runner=True)
    states = system.directory / "states"
    backend = f'terraform {{\n  backend "local" {{ workspace_dir = "{states}" }}\n}}\n'
    system.module("app", backend + WORKSPACE, backend="own", environment={"TF_WORKSPACE": "prod"})
    (states / "prod").mkdir(parents=True)
    applied = system.wait(system.run("app", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    assert system.api.get("/modules/app/outputs")["outputs"]["workspace"]["value"] == "prod"


FROM_SHELL = """
variable "y" { type = string }
resource "terraform_data" "shell" {
  provisioner "local-exec" { command = "echo profile=$AWS_PROFILE other=$SOMETHING_ELSE." }
}
resource "testing_file" "one" {
  directory = "%s"
  name      = "one"
}
output "y" { value = var.y }
"""


@pytest.mark.feature("D1.environment")
def test_engines_of_up_get_the_variables_with_which_people_use_clouds(system: System) -> None:
    """AWS_PROFILE, TF_VAR_y and TF_CLI_CONFIG_FILE did not arrive, and nothing said so: could not connect to registry."""
    configuration = str(providers.configuration(system.directory))
    system.env |= {"AWS_PROFILE": "estate", "TF_VAR_y": "from a shell", "SOMETHING_ELSE": "x"}
    system.env |= {"TF_CLI_CONFIG_FILE": configuration, "TERRACREW_SERVER_ORGANIZATION": "default"}
    system.start_server(runner=True, is_up=True)
    system.module("app", providers.required("testing") + FROM_SHELL % system.directory)
    applied = system.wait(system.run("app", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    assert "profile=estate other=." in system.log(applied["id"])
    assert system.api.get("/modules/app/outputs")["outputs"]["y"]["value"] == "from a shell"
    rows = dict(line.split() for line in terracrew(system, "up", "--show-environment").splitlines()[1:])
    assert (rows["AWS_PROFILE"], rows["TF_VAR_y"], rows["SOMETHING_ELSE"]) == ("yes", "yes", "no")
    assert rows["TERRACREW_SERVER_ORGANIZATION"] == "no"


@pytest.mark.feature("D1.environment")
def test_engines_beside_a_server_get_only_what_its_settings_name(system: System) -> None:
    system.env |= {"AWS_PROFILE": "estate", "AWS_REGION": "eu-1", "TERRACREW_SERVER_RUNNER_ENVIRONMENT": "AWS_REG*"}
    system.start_server(runner=True)
    script = "echo profile=$AWS_PROFILE region=$AWS_REGION."
    system.module("app", f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{ command = "{script}" }}\n}}')
    applied = system.wait(system.run("app", "APPLY"))
    assert "profile= region=eu-1." in system.log(applied["id"])
    shown = json.loads(terracrew(system, "server", "environment", "--json"))
    assert "AWS_REGION" in shown["given"]
    assert "AWS_PROFILE" in shown["withheld"]
    of_runner = json.loads(terracrew(system, "runner", "environment", "--json"))
    assert {"AWS_REGION", "AWS_PROFILE"} <= set(of_runner["given"])
    assert "TERRACREW_SERVER_RUNNER_ENVIRONMENT" in of_runner["withheld"]


OLD = 'resource "terraform_data" "dropped" { input = 1 }\n'
NEW = """
removed {
  from = terraform_data.dropped
  lifecycle { destroy = false }
}
check "health" {
  assert {
    condition     = terraform.workspace == "other"
    error_message = "it is ${terraform.workspace}"
  }
}
"""


@pytest.mark.feature("J11.checks", "J11.resources")
def test_a_plan_says_what_it_forgets_and_which_checks_failed(system: System) -> None:
    system.start_server(runner=True)
    system.module("app", OLD)
    assert system.wait(system.run("app", "APPLY"))["status"] == "SUCCEEDED"
    folder = system.directory / "source" / "app"
    (folder / "main.tf").write_text(NEW)
    terracrew(system, "module", "update", "app", "--from", str(folder))
    planned = system.wait(system.run("app"))
    assert planned["status"] == "SUCCEEDED", system.log(planned["id"])
    plan = planned["plan"]
    assert plan["checks"] == [{"address": "check.health", "message": "it is default"}]
    [dropped] = plan["resources"]
    assert dropped == {
        "address": "terraform_data.dropped",
        "action": "forget",
        "detail": "no longer managed, not destroyed",
    }


@pytest.mark.feature("U6.move")
def test_a_module_that_was_moved_finds_its_resources_and_its_outputs_again(system: System) -> None:
    system.start_server(runner=True)
    system.module("team/net", 'resource "terraform_data" "one" {}\noutput "id" { value = terraform_data.one.id }\n')
    assert system.wait(system.run("team/net", "APPLY"))["status"] == "SUCCEEDED"
    outputs = system.api.get("/modules/team%2Fnet/outputs")["outputs"]
    terracrew(system, "group", "create", "shared")
    assert "moved module team/net to shared/core" in terracrew(system, "module", "move", "team/net", "shared/core")
    planned = system.wait(system.run("shared/core", "PLAN"))
    assert (planned["status"], planned["plan"]["resources"], planned["plan"]["unchanged"]) == ("SUCCEEDED", [], 1)
    assert system.api.get("/modules/shared%2Fcore/outputs")["outputs"] == outputs
    destroyed = system.wait(system.run("shared/core", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", system.log(destroyed["id"])
