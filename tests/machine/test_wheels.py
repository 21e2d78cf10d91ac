"""Wheels for tests say the version that they were asked for, run, and are built once."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.machine import wheels


def test_a_wheel_of_another_version_runs_and_says_so(tmp_path: Path) -> None:
    wheel = wheels.build("0.2.0-rc.7")
    assert wheel.name == "terracrew-0.2.0rc7-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    run = "import sys; sys.path.insert(0, sys.argv.pop(1)); from terracrew.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", run, str(tmp_path), "--version"], capture_output=True, text=True)
    assert done.stdout == "terracrew 0.2.0-rc.7\n", done.stderr
    made_at = wheel.stat().st_mtime_ns
    assert wheels.build("0.2.0-rc.7") == wheel
    assert wheel.stat().st_mtime_ns == made_at, "it was built once"
    other = wheels.build("0.2.0-rc.7", {"runner/broken.py": "raise SystemExit(3)\n"})
    assert other != wheel
    with zipfile.ZipFile(other) as archive:
        assert archive.read("terracrew/runner/broken.py") == b"raise SystemExit(3)\n"
