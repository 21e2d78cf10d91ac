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

    @property
    def source(self) -> Path:
        return FOLDER / self.folder

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]


SAMPLES = (
    Sample("platform/network", "network", "subnets, routes and a gateway"),
    Sample("platform/chatty", "chatty", "prints three thousand lines"),
    Sample("payments/broken", "broken", "breaks a rule on purpose", "FAILED"),
    Sample("payments/ledger", "ledger", "has an output that is secret", inputs={"owner": "payments"}),
    Sample("payments/gateway", "gateway", "waits until you approve its plan", "AWAITING_APPROVAL", needs_approval=True),
)
