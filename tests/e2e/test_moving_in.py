"""A configuration that was written for the bare engine works in Terracrew as before, or is refused with the way out."""

from typing import Any

import pytest

from terracrew.errors import Invalid
from tests.e2e.system import System

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
