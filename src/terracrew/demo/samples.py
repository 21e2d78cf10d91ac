"""The sample modules, their inputs, and how each job is expected to end."""

from pathlib import Path
from typing import Any

import msgspec

FOLDER = Path(__file__).with_name("samples")


class Sample(msgspec.Struct, frozen=True):
    path: str
    folder: str
    description: str
    expected: str = "SUCCEEDED"
    inputs: dict[str, Any] = {}
    needs_approval: bool = False
    """Its job is left waiting, so that the person who watches the demo can approve it."""
    version: str = ""
    """It comes from the git repository of the demo, at the highest tag in this range. Otherwise it is uploaded."""
    uses: dict[str, str] = {}
    """The inputs that are outputs of another module: `{"subnets": "platform/network:subnets"}`."""
    after_apply: str = ""
    """A hook: the script that runs after the apply."""

    @property
    def source(self) -> Path:
        return FOLDER / self.folder

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]


SECRET_GROUP, SECRET_NAME = "payments", "BACKUP_KEY"
"""A secret of a group, which is an environment variable of all modules below it."""
_BACK_UP = f"""#!/bin/sh
echo "the ledger is backed up, encrypted with the key ${SECRET_NAME}"
"""

SAMPLES = (
    Sample("platform/network", "network", "comes from a git repository, at its newest 1.x tag", version="~> 1.0"),
    Sample(
        "platform/firewall",
        "firewall",
        "uses an output of platform/network",
        uses={"subnets": "platform/network:subnets"},
    ),
    Sample("platform/chatty", "chatty", "prints three thousand lines"),
    Sample("payments/broken", "broken", "breaks a rule on purpose", "FAILED"),
    Sample(
        "payments/ledger",
        "ledger",
        "runs a hook that uses a secret of its group",
        inputs={"owner": "payments"},
        after_apply=_BACK_UP,
    ),
    Sample("payments/gateway", "gateway", "waits until you approve its plan", "AWAITING_APPROVAL", needs_approval=True),
)
