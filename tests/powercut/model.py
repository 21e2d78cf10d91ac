"""The model of `synced` as a disk that processes write to: an ordinary folder, and a note of what was synced."""

import shutil
from pathlib import Path

from tests.powercut.synced import Snapshot, SyncedDisk


class ModelDisk:
    is_model = True

    def __init__(self, mount_point: Path) -> None:
        self.mount_point = mount_point
        mount_point.mkdir()
        self._disk = SyncedDisk(mount_point)

    def synced(self, path: str) -> None:
        self._disk.synced(path)

    def snapshot(self) -> Snapshot:
        return self._disk.snapshot()

    def restore(self, snapshot: Snapshot) -> None:
        """Put what was synced at the same place."""
        shutil.rmtree(self.mount_point)
        snapshot.restore(self.mount_point)

    def unmount(self) -> None:
        self._disk.close()
