"""What a job asks of a dispatcher in words, the same on pages and in a terminal."""

from collections.abc import Mapping
from typing import Any


def described(choice: Mapping[str, Any]) -> list[str]:
    """Return each part as a phrase: `kubernetes`, `image registry.example/executor:2`. `choice` is as the API shows it."""
    found: list[str] = []
    if name := choice.get("name"):
        found.append(str(name))
    if image := choice.get("image"):
        found.append(f"image {image}")
    if memory := choice.get("memory_mb"):
        found.append(f"{memory:,} MB of memory")
    if cpu := choice.get("cpu"):
        found.append(f"{cpu:g} processor{'' if cpu == 1 else 's'}")
    if account := choice.get("service_account"):
        found.append(f"service account {account}")
    return found
