"""One life of a site, and what becomes of it after a power cut at each of some moments."""

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.powercut.installation import Installation
from tests.powercut.loop import LoopDisk
from tests.powercut.model import ModelDisk
from tests.powercut.recorder import Moment, Recorder

DiskKind = Literal["model", "ext4"]
Choice = Callable[[Sequence[Moment[Any]]], Sequence[Moment[Any]]]


class Outcome(NamedTuple):
    moment: Moment[Any]
    kind: str
    violations: list[str]
    seconds: float


class Life(NamedTuple):
    moments: int
    promises: int
    outcomes: list[Outcome]


def live(
    disk_kind: DiskKind,
    choose: Choice,
    *,
    is_short: bool = False,
    ignoring: str = "",
    told: Callable[[Outcome], None] = lambda _: None,
    kept: Path | None = None,
) -> Life:
    """Let a site work, then cut the power at the chosen moments, one after the other.

    If a promise was broken, copy what the disk has after the check, and what the processes logged, into the directory `kept`.
    """
    with _folder() as folder:
        point = folder / "disk"
        disk: Any = ModelDisk(point) if disk_kind == "model" else LoopDisk(folder, point)
        try:
            site = Installation(folder, point)
            recorder = Recorder[Any](folder, disk, site.promised, ignoring)
            try:
                site.work(recorder.environment, is_short=is_short)
            finally:
                recorder.close()
                site.kill()
            promises, outcomes = site.promised(), list[Outcome]()
            for moment in choose(recorder.moments):
                disk.restore(moment.snapshot)
                start = time.monotonic()
                violations = site.check(moment.promises)
                outcomes.append(Outcome(moment, kind_of(moment.after), violations, time.monotonic() - start))
                if violations and kept is not None:
                    target = kept / f"{disk_kind}-{moment.number}"
                    target.mkdir(parents=True, exist_ok=True)
                    subprocess.run(["cp", "-a", point, site.folder / f"start-{site.starts}", target], check=True)
                told(outcomes[-1])
            return Life(len(recorder.moments), promises, outcomes)
        finally:
            disk.unmount()


def kind_of(path: str) -> str:
    """What was synced, without the ids in its name."""
    name = re.sub(r"([a-z]{3})_[0-9a-f]{32}", r"<\1>", path.partition("/disk/")[2] or ".")
    return re.sub(r"\b\d+(?=[._/]|$)|_[0-9a-f]{64}", "N", name)


@contextlib.contextmanager
def _folder() -> Generator[Path]:
    """In memory where that is possible: copies of images are large, and the disk under test is in them."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="powercut-", dir=memory if memory.is_dir() else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
