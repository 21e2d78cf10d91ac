"""The stand-in for OpenTofu of the storm, with states of any size: `state_bytes` of the module says how large.

It runs as an executable called `tofu`, see `site`.
"""

import json
import os
import sys
from typing import Any

from tests.chaos import engine

_described = engine.described


def described(known: dict[str, str]) -> list[dict[str, Any]]:
    """The resources of a state, the first of which has a large attribute."""
    with open("chaos.json") as file:
        size = int(json.load(file)["state_bytes"])
    resources: list[dict[str, Any]] = _described(known)
    resources[0]["instances"][0]["attributes"]["ballast"] = os.urandom(size // 2).hex()
    return resources


if __name__ == "__main__":
    engine.described = described
    sys.exit(engine.main(sys.argv[1:]))
