"""What a runner does with a grant if its disk fails before the executor has begun."""

from pathlib import Path

import pytest

from terracrew.protocol.messages import HandBack
from tests.runner.conftest import Runners, granted

pytestmark = pytest.mark.feature("O4.salvaged")

DISK = """
import errno, os
sync = os.fsync
def fsync(descriptor):
    if os.path.exists({mark!r}):
        raise OSError(errno.EIO, "Input/output error")
    sync(descriptor)
os.fsync = fsync
"""


async def test_an_attempt_whose_start_cannot_be_synced_is_handed_back(runners: Runners, tmp_path: Path) -> None:
    """Symptom: the executor had signed the directory, so its delivery was tried again and again, and the job was stuck."""
    broken = tmp_path / "broken"
    (tmp_path / "sitecustomize.py").write_text(DISK.format(mark=str(broken)))
    runners.environment["PYTHONPATH"] = f"{tmp_path}:{runners.environment['PYTHONPATH']}"
    runner, peer = await runners.connected()
    broken.touch()
    await peer.send(granted())
    back = await peer.receive(HandBack)
    assert "cannot be synced" in back.reason
    assert back.choice_pause_seconds == 5, "the obstacle may be this machine's"
    await runners.settle(peer)
    assert "Traceback" not in runner.output
