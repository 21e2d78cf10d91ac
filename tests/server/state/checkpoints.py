"""Checkpoints of Pulumi stacks."""

import json
from typing import Any


def resource(name: str, **fields: Any) -> dict[str, Any]:
    found = {
        "urn": f"urn:pulumi:dev::app::a:b:C$testing:index:File::{name}",
        "type": "testing:index:File",
        "custom": True,
    }
    return found | fields


def checkpoint(resources: list[Any], pending: list[Any]) -> bytes:
    latest = {"manifest": {"time": "2026-01-01T00:00:00Z"}, "resources": resources, "pending_operations": pending}
    return json.dumps({"version": 3, "checkpoint": {"stack": "organization/app/dev", "latest": latest}}).encode()
