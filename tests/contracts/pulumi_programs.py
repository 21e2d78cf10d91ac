"""YAML programs for the tests of Pulumi, with resources of the provider `testing` (`tests/provider/pulumi/`)."""

import json
from collections.abc import Mapping
from typing import Any

PROJECT = "contract"


def file(name: str, *, needs: str = "", **properties: object) -> dict[str, Any]:
    """Return a resource whose real thing is a file in the folder of the program."""
    found: dict[str, Any] = {
        "type": "testing:File",
        "properties": {"directory": "${pulumi.cwd}", "name": name, **properties},
    }
    return found | ({"options": {"dependsOn": [f"${{{needs}}}"]}} if needs else {})


def program(
    resources: Mapping[str, object] | None = None,
    outputs: Mapping[str, object] | None = None,
    config: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Return the files of a program."""
    content = {"name": PROJECT, "runtime": "yaml", "config": config, "resources": resources, "outputs": outputs}
    return {"Pulumi.yaml": json.dumps({key: value for key, value in content.items() if value})}
