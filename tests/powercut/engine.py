"""The stand-in for OpenTofu of the storm, with states of any size: `state_bytes` of the module says how large.

It runs as an executable called `tofu`, see `site`.
"""

import json
import os
import sys
import time
from typing import Any

from tests.chaos import engine

_described = engine.described


def described(known: dict[str, str]) -> list[dict[str, Any]]:
    """The resources of a state, the first of which has a large attribute. Waits until states may be saved."""
    with open("chaos.json") as file:
        module = json.load(file)
    end = time.monotonic() + engine.TIMEOUT_SECONDS
    while os.path.exists(module["hold"]) and time.monotonic() < end:
        time.sleep(0.01)
    resources: list[dict[str, Any]] = _described(known)
    resources[0]["instances"][0]["attributes"]["ballast"] = os.urandom(int(module["state_bytes"]) // 2).hex()
    return resources


if __name__ == "__main__":
    engine.described = described
    sys.exit(engine.main(sys.argv[1:]))
