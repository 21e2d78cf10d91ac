"""The provider `terracrew`: a real OpenTofu describes a real server with it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.client.address import segment
from terracrew.errors import NotFound
from tests.e2e.provider_workspace import Workspace
from tests.e2e.system import System, running

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
GROUPS = """
resource "terracrew_group" "platform" {
  path        = "platform"
  description = "%s"
  limits = {
    job_seconds  = 3600
    step_seconds = { %s }
  }
}
"""
MODULE = """
resource "terracrew_module" "network" {
  path = "${terracrew_group.platform.path}/%s"
  tags = ["eu", "arm"]
  source = {
    git = {
      url    = "https://forge.example/platform.git"
      branch = "main"
    }
  }
}
"""
ACCESS = """
resource "terracrew_service_account" "deploy" {
  name  = "%(name)s"
  group = terracrew_group.platform.path
}
resource "terracrew_role" "deploy" {
  principal = terracrew_service_account.deploy.id
  role      = "%(role)s"
  path      = terracrew_group.platform.path
}
"""
RUNNERS = """
resource "terracrew_runner" "crew" {
  name                       = "crew"
  group                      = terracrew_group.platform.path
  tags                       = ["eu"]
  is_assigned_to_all_modules = false
  is_disabled                = %(disabled)s
  service_account            = "platform/%(name)s"
  configuration              = { heartbeat_seconds = 2.5 }
  depends_on                 = [terracrew_service_account.deploy]
}
resource "terracrew_assignment" "crew" {
  runner = terracrew_runner.crew.path
  place  = terracrew_module.network.path
}
resource "terracrew_cloud_identity" "aws" {
  name     = "aws"
  group    = terracrew_group.platform.path
  role_arn = "arn:aws:iam::111122223333:role/terracrew"
  region   = "%(region)s"
}
"""
VARIABLES = """
resource "terracrew_variable" "zones" {
  place = terracrew_group.platform.path
  name  = "zones"
  value = %(zones)s
}
resource "terracrew_variable" "token" {
  place          = terracrew_module.network.id
  target         = "environment"
  name           = "FORGE_TOKEN"
  secret         = "%(secret)s"
  secret_version = %(secret_version)s
}
resource "terracrew_variable" "readme" {
  place     = terracrew_module.network.id
  target    = "file"
  name      = "docs/README.md"
  value     = "%(region)s"
  overwrite = true
}
resource "terracrew_variable" "own_name" {
  place      = terracrew_module.network.id
  name       = "own_name"
  definition = "module_name"
}
resource "terracrew_schedule" "nightly" {
  place     = terracrew_group.platform.id
  name      = "nightly"
  kind      = "DRIFT"
  cron      = "%(cron)s"
  time_zone = "Europe/Berlin"
}
"""
ZONES = """
resource "terracrew_variable" "zones" {
  place = terracrew_group.platform.path
  name  = "zones"
  value = "a"
}
"""
SETTINGS = """
resource "terracrew_group" "shop" {
  path               = "shop"
  min_approvals      = 2
  self_approval      = false
  pull_request_apply = "on_merge"
  limits             = { plan_retries = 2, step_seconds = { plan = 60 } }
}
resource "terracrew_runner" "crew" {
  name          = "crew"
  configuration = { log_level = { Default = "Debug" } }
}
resource "terracrew_module" "web" {
  path           = "${terracrew_group.shop.path}/web"
  runner         = terracrew_runner.crew.path
  oidc_audiences = ["vault", "aws"]
  watch          = ["/b/**", "!*.md", "/a/**"]
  dispatcher     = { name = "docker", cpu = 0.5, inherits = false }
  source         = { registry = { address = "hashicorp/consul/aws", version = "~> 0.1" } }
  cloud = {
    aws = {
      plan_role  = "arn:aws:iam::111122223333:role/plan"
      apply_role = "arn:aws:iam::111122223333:role/apply"
    }
  }
}
resource "terracrew_cloud_identity" "cluster" {
  name = "cluster"
  kind = "kubernetes"
  way  = "workload"
}
resource "terracrew_schedule" "everything" {
  place = "/"
  name  = "everything"
  kind  = "PLAN"
  cron  = "0 1 * * *"
}
"""
NO_SETTINGS = """
resource "terracrew_group" "shop" {
  path = "shop"
}
resource "terracrew_runner" "crew" {
  name = "crew"
}
resource "terracrew_module" "web" {
  path   = "${terracrew_group.shop.path}/web"
  source = { git = { url = "https://forge.example/web.git", tag = "v1" } }
}
"""
RESOURCE = {
    "mode": "managed",
    "type": "terraform_data",
    "name": "kept",
    "provider": 'provider["terraform.io/builtin/terraform"]',
    "instances": [{"schema_version": 0, "attributes": {"id": "1"}}],
}
BEFORE = {
    "name": "deploy",
    "role": "operator",
    "disabled": "false",
    "region": "eu-central-1",
    "zones": '["a", { b = 1.5 }]',
    "secret": "planted-1",
    "secret_version": "1",
    "cron": "0 3 * * *",
}
AFTER = {
    "name": "deployer",
    "role": "owner",
    "disabled": "true",
    "region": "eu-west-1",
    "zones": '"c"',
    "secret": "planted-2",
    "secret_version": "2",
    "cron": "0 4 * * *",
}
IMPORTED = {
    "terracrew_group.platform": "platform",
    "terracrew_module.network": "platform/net",
    "terracrew_runner.crew": "platform/crew",
    "terracrew_assignment.crew": "platform/crew:platform/net",
    "terracrew_service_account.deploy": "platform/deployer",
    "terracrew_role.deploy": "",
    "terracrew_cloud_identity.aws": "platform/aws",
    "terracrew_variable.zones": "platform:variable:zones",
    "terracrew_schedule.nightly": "",
}
"""What each resource can be imported by; its id, where that is empty."""


def tree(group: str, steps: str, module: str, others: dict[str, str]) -> tuple[str, ...]:
    """Return a configuration with every resource."""
    return (GROUPS % (group, steps), MODULE % module, *(each % others for each in (ACCESS, RUNNERS, VARIABLES)))


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with running(tmp_path) as found:
        found.start_server(runner=False)
        yield found


@pytest.fixture
def workspace(system: System) -> Workspace:
    return Workspace(system)


@pytest.mark.feature("K9.resources", "K9.secrets")
def test_a_tree_is_made_changed_imported_and_destroyed(system: System, workspace: Workspace) -> None:
    workspace.apply(*tree("Ours", "plan = 60, init = 90", "network", BEFORE))
    assert workspace.is_up_to_date()
    made = system.api.get(f"/modules/{segment('platform/network')}")
    assert (made["source"]["branch"], made["tags"]) == ("main", ["arm", "eu"])
    assert "planted-1" not in workspace.state(), "the secret is in the state"
    assert system.api.get(f"/runners/{segment('platform/crew')}")["configuration"]["heartbeat_seconds"] == 2.5

    workspace.apply(*tree("Theirs", "plan = 60", "net", AFTER))
    assert workspace.is_up_to_date()
    changed = system.api.get("/groups/platform")
    assert (changed["description"], changed["limits"]["step_seconds"]) == ("Theirs", {"plan": 60})
    assert system.api.get(f"/modules/{segment('platform/net')}")["id"] == made["id"], "it was moved, not made again"
    given = {each["name"]: each for each in system.api.list("/inputs", place="platform/net")}
    assert (given["FORGE_TOKEN"]["kind"], given["FORGE_TOKEN"]["version"]) == ("secret", 2)
    assert (given["zones"]["value"], given["docs/README.md"]["version"]) == ("c", 2)

    ids = workspace.ids()
    workspace.run("state", "rm", *IMPORTED)
    imports = [f'import {{\n  to = {to}\n  id = "{name or ids[to]}"\n}}\n' for to, name in IMPORTED.items()]
    said = workspace.apply(*tree("Theirs", "plan = 60", "net", AFTER), *imports)
    assert f"{len(IMPORTED)} imported, 0 added" in said
    assert "0 destroyed" in said
    assert workspace.is_up_to_date()

    workspace.run("destroy", "-auto-approve")
    with pytest.raises(NotFound):
        system.api.get("/groups/platform")


@pytest.mark.feature("K9.drift")
def test_what_was_deleted_or_changed_behind_its_back_is_made_again(system: System, workspace: Workspace) -> None:
    tree_of = tree("Ours", "", "network", BEFORE)
    workspace.apply(*tree_of)
    system.api.delete(f"/runners/{segment('platform/crew')}")
    system.api.patch("/groups/platform", {"max_running_jobs": 3, "description": "by hand"})
    system.api.post("/inputs", {"place": "platform", "name": "zones", "value": "by hand"})
    token = {"place": "platform/network", "target": "environment", "name": "FORGE_TOKEN"}
    system.api.post("/inputs", {**token, "secret": "set-by-hand"})
    assert "2 added, 3 changed, 0 destroyed" in workspace.apply(*tree_of), "runner, assignment; group, two variables"
    assert workspace.is_up_to_date()
    found = system.api.get("/groups/platform")
    assert (found["max_running_jobs"], found["description"]) == (None, "Ours")
    zones = [each["value"] for each in system.api.list("/inputs", place="platform") if each["name"] == "zones"]
    assert zones == [["a", {"b": 1.5}]]


@pytest.mark.feature("K9.drift")
def test_settings_that_are_not_named_any_more_are_taken_away(system: System, workspace: Workspace) -> None:
    workspace.apply(SETTINGS)
    assert workspace.is_up_to_date()
    made = system.api.get(f"/modules/{segment('shop/web')}")
    assert made["cloud"]["aws"]["plan_role"].endswith("role/plan")
    assert made["source"]["address"] == "registry.opentofu.org/hashicorp/consul/aws"
    assert (made["dispatcher"]["cpu"], made["dispatcher"]["inherits"]) == (0.5, False)

    workspace.apply(NO_SETTINGS)
    assert workspace.is_up_to_date()
    web, shop = system.api.get(f"/modules/{segment('shop/web')}"), system.api.get("/groups/shop")
    assert not any(web["cloud"].values())
    assert (web["runner_id"], web["watch"], shop["min_approvals"]) == (None, [], None)
    assert "cpu" not in web["dispatcher"]
    assert not shop["limits"].get("step_seconds")
    assert system.api.get("/runners/crew")["configuration"]["log_level"] == {}


@pytest.mark.feature("K9.refusals")
def test_what_the_server_refuses_is_said_in_its_words(system: System, workspace: Workspace) -> None:
    workspace.apply(GROUPS % ("Ours", ""), MODULE % "network")
    system.module("platform/by-hand", 'output "a" { value = 1 }')
    state: dict[str, object] = {"version": 4, "serial": 1, "lineage": "by-hand", "outputs": {}, "resources": [RESOURCE]}
    place = f"/modules/{segment('platform/network')}/states"
    system.api.upload(place, json.dumps(state).encode(), "application/json")
    said = workspace.run("destroy", "-auto-approve", code=1)
    assert "The module was not deleted" in said
    assert "resource" in said
    system.api.delete(f"/modules/{segment('platform/network')}?force=true")
    said = workspace.run("destroy", "-auto-approve", code=1)
    assert "The group was not deleted" in said
    assert "group `platform` is not empty: it has 1 module" in said
    system.api.post("/inputs", {"place": "platform", "name": "zones", "value": "by hand"})
    said = workspace.apply(GROUPS % ("Ours", ""), ZONES, code=1)
    assert "The variable was not created" in said
    assert "it exists: import it as `platform:variable:zones`, or remove it" in said
    workspace.write(GROUPS % ("Ours", "fly = 3"))
    said = workspace.run("apply", "-auto-approve", code=1)
    assert "The group was not changed with terracrew_group.platform" in said
    error = said.partition("Error:")[2]
    assert "limits = {" in error, "the argument"
    assert "limits.step_seconds: 'fly' is not one of fetch, " in error


def test_a_token_that_is_not_valid_is_one_error(workspace: Workspace) -> None:
    workspace.write(GROUPS % ("Ours", ""), MODULE % "network")
    said = workspace.run("plan", code=1, TERRACREW_TOKEN="tcr_nothing")
    assert said.count("Error:") == 1
    assert "The server does not accept the token" in said
    assert "this credential is not valid" in said
    said = workspace.run("plan", code=1, TERRACREW_TOKEN="")
    assert "TERRACREW_TOKEN" in said


def test_another_organization_is_named_in_the_configuration(system: System, workspace: Workspace) -> None:
    system.api.post("/organizations", {"name": "other"})
    workspace.apply(GROUPS % ("Theirs", ""), TERRACREW_ORGANIZATION="other")
    with pytest.raises(NotFound):
        system.api.get("/groups/platform")
    assert "Theirs" in workspace.run("show")
    said = workspace.run("plan", code=1, TERRACREW_ORGANIZATION="nowhere")
    assert "The server cannot be used" in said
    assert "nowhere" in said
