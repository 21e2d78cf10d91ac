"""A setting is in the details of its noun without being named by the command that prints them."""

from typing import Any

import msgspec
import pytest

from terracrew.api import fields
from terracrew.api.deployments import DeploymentSettings
from terracrew.api.fields import StructField
from terracrew.api.groups import GroupSettings
from terracrew.api.modules import ModuleSettings
from terracrew.api.runners import Configuration, RunnerOptions
from tests.cli.answers import THEN
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("E1.commands")
VALUES: dict[str, Any] = {
    "source": {"kind": "local", "path": "/srv/x"},
    "limits": {"job_seconds": 60},
    "cloud": {"aws": dict.fromkeys(("plan_role", "apply_role"), "arn:aws:iam::111122223333:role/x")},
    "period_seconds": 0.5,
    "dispatcher": {"name": "docker"},
    "engine": "pulumi",
    "log_level": {"Default": "Debug"},
}
COMPOSED: dict[type[msgspec.Struct], dict[str, str]] = {
    ModuleSettings: {
        "engine_version": "engine",
        "interrupted": "approval rule",
        "max_destroy": "approval rule",
        "max_destroy_percent": "approval rule",
        "min_approvals": "approval rule",
        "needs_approval": "approval",
        "approval_seconds": "approval",
        "triggers": "applied by itself",
        "runner_instance_name": "runs on",
        "tags": "tags",
    },
    DeploymentSettings: {
        "image": "image",
        "cpu_units": "size",
        "memory_mb": "size",
        "min_instances": "instances",
        "max_instances": "instances",
        "capacity": "jobs of each",
        "idle_seconds": "sleeps after",
    },
}
"""The settings that a row with another label shows."""
COMMANDS: dict[type[msgspec.Struct], list[str]] = {
    ModuleSettings: ["module", "show"],
    GroupSettings: ["group", "show"],
    DeploymentSettings: ["runner", "deployment"],
}
RULES = [{"name": "min_approvals", "value": 2, "path": "a"}]
PLACEMENT = {"runner_path": None, "runner_instance_name": "one", "tags": ["gpu"], "limits": []}


def changed(field: StructField) -> Any:
    """Return a value that is not the default."""
    match field.shape:
        case "boolean":
            return not field.default
        case "choice":
            return next(each for each in field.choices if each != field.default)
        case "integer" | "number":
            return next(each for each in (field.minimum or 0, field.maximum or 7) if each != field.default)
        case "list":
            return ["x"]
        case "map":
            return {"x": "y"}
        case _:
            return "x"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in (ModuleSettings, GroupSettings, RunnerOptions, Configuration, DeploymentSettings)
        for name in fields.describe(kind)
    ],
)
def test_every_setting_is_in_the_details(
    terracrew: Terracrew, server: ScriptedServer, kind: type[msgspec.Struct], name: str
) -> None:
    field = fields.describe(kind)[name]
    change = {name: VALUES.get(name, changed(field))}
    place = {"id": "x_1", "path": "a", "created_at": THEN, "approval_rules": RULES}
    module = place | {"engine": "tofu", "source": VALUES["source"], "approval_seconds": 60, "placement": PLACEMENT}
    module |= {"applying_dispatcher": change.get("dispatcher", {})}
    server.on("GET /api/v1/modules/a", module | change)
    server.on("GET /api/v1/groups/a", place | change)
    server.on("GET /api/v1/runners/a", place | ({"configuration": change} if kind is Configuration else change))
    server.on("GET /api/v1/runners/a/assignments", {"items": [], "next": None})
    server.on("GET /api/v1/runners/a/deployment", {"path": "a", "image": "x", "settings": change})
    shown = terracrew(*COMMANDS.get(kind, ["runner", "show"]), "a")
    label = COMPOSED.get(kind, {}).get(name, field.label.lower())
    assert [line for line in shown.splitlines() if line.startswith(f"{label} ")], shown + terracrew.err
