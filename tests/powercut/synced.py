"""The harshest disk that POSIX permits: after a power cut it has exactly what was synced, and nothing else.

A file has the content that it had at its last sync, and a file that was never synced is empty. A directory has the names
that it had at its last sync. No real file system forgets that much; what survives here survives on all of them.
"""

import os
import stat
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE_BYTES = 4096


class Snapshot(NamedTuple):
    root: int
    files: dict[int, tuple[bytes, ...]]
    """Content by inode, in pages: snapshots that differ little share most of them."""
    folders: dict[int, dict[str, tuple[int, int, str]]]
    """Name → inode, mode, and what a symbolic link leads to."""

    def restore(self, target: Path) -> None:
        """Make a directory as it is when the power is back."""
        target.mkdir(mode=0o700)
        self._restore(self.root, target)

    def _restore(self, folder: int, target: Path) -> None:
        for name, (inode, mode, link) in self.folders.get(folder, {}).items():
            path = target / name
            if stat.S_ISLNK(mode):
                path.symlink_to(link)
            elif stat.S_ISDIR(mode):
                path.mkdir(mode=mode & 0o777)
                self._restore(inode, path)
            elif stat.S_ISREG(mode):
                path.write_bytes(b"".join(self.files.get(inode, ())))
                path.chmod(mode & 0o777)


class SyncedDisk:
    def __init__(self, root: Path) -> None:
        """Everything that is under the root now is durable."""
        self._root = root.stat().st_ino
        self._device = root.stat().st_dev
        self._files: dict[int, tuple[bytes, ...]] = {}
        self._pages: dict[bytes, bytes] = {}
        self._folders: dict[int, dict[str, tuple[int, int, str]]] = {}
        self._held: dict[int, int] = {}  # open descriptors, so that no inode's number is used again
        for folder, _, names in os.walk(root):
            self.synced(folder)
            for name in names:
                if not os.path.islink(os.path.join(folder, name)):
                    self.synced(os.path.join(folder, name))

    def synced(self, path: str) -> None:
        """Note what this file or directory has now. Call it before the sync: what comes later is not covered by it."""
        found = os.stat(path)
        if found.st_dev != self._device:
            return
        self._hold(path, found.st_ino)
        if not stat.S_ISDIR(found.st_mode):
            with open(path, "rb") as file:
                pages = iter(lambda: file.read(PAGE_BYTES), b"")
                self._files[found.st_ino] = tuple(self._pages.setdefault(page, page) for page in pages)
            return
        names: dict[str, tuple[int, int, str]] = {}
        for entry in os.scandir(path):
            info = entry.stat(follow_symlinks=False)
            names[entry.name] = (info.st_ino, info.st_mode, os.readlink(entry.path) if entry.is_symlink() else "")
            self._hold(entry.path, info.st_ino)
        self._folders[found.st_ino] = names

    def snapshot(self) -> Snapshot:
        return Snapshot(self._root, dict(self._files), dict(self._folders))

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)

    def _hold(self, path: str, inode: int) -> None:
        if inode not in self._held:
            follow = os.O_NOFOLLOW if not path.startswith("/proc/") else 0
            self._held[inode] = os.open(path, os.O_PATH | os.O_CLOEXEC | follow)


class PowerCut:
    """Watches the syncs of this process, for tests of one part."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.disk, self._root = SyncedDisk(root), root
        self.syncs = self._restarts = 0
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._sync)

    def _sync(self, descriptor: int) -> None:
        self.syncs += 1
        self.disk.synced(f"/proc/self/fd/{descriptor}")

    def restored(self) -> Path:
        """What a start after a power cut at this moment would find."""
        self._restarts += 1
        target = self._root.with_name(f"{self._root.name}-{self._restarts}")
        self.disk.snapshot().restore(target)
        return target
