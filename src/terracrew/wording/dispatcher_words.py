"""What a job asks of a dispatcher in words, the same on pages and in a terminal."""

from collections.abc import Mapping
from typing import Any


def described(choice: Mapping[str, Any], places: Mapping[str, str] | None = None) -> list[str]:
    """Return each part as a phrase: `kubernetes`, `image registry.example/executor:2`. `choice` is as the API shows it. `places`
    are the paths of groups that fields come from, which the phrases name."""
    found: dict[str, str] = {}
    if name := choice.get("name"):
        found["name"] = str(name)
    if image := choice.get("image"):
        found["image"] = f"image {image}"
    if memory := choice.get("memory_mb"):
        found["memory_mb"] = f"{memory:,} MB of memory"
    if cpu := choice.get("cpu"):
        found["cpu"] = f"{cpu:g} processor{'' if cpu == 1 else 's'}"
    if account := choice.get("service_account"):
        found["service_account"] = f"service account {account}"
    if choice.get("inherits") is False:
        found["inherits"] = "nothing of the groups above"
    for field, path in (places or {}).items():
        found[field] += f" (from {path or 'the organization'})"
    return list(found.values())
