"""No package imports what its contract forbids: the contracts of .importlinter, which `make check` reads too."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_import_contract_is_kept(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--cache-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[done.stdout.rfind("Broken contracts") :] + done.stderr
    assert ", 0 broken." in done.stdout
