"""What the resources of the real engine record about themselves is what exists."""

import subprocess
from pathlib import Path

import pytest

from terracrew.toolchains import discovery
from tests.chaos import witness
from tests.chaos.installation import install_programs
from tests.chaos.made_once import made_twice
from tests.chaos.work import REAL_MODULE


@pytest.mark.engine
@pytest.mark.timeout(120)
def test_a_thing_whose_witness_was_killed_is_seen_to_be_replaced(tmp_path: Path) -> None:
    """`made real-2/part-1 (knowing serial 0) while another exists, and nobody was asked`: a fault had killed the provisioner that
    had just recorded the creation. The engine replaced this thing in the next apply without the provisioner of its destruction."""
    install_programs(tmp_path / "bin")
    killed, witnesses = tmp_path / "killed", tmp_path / "witnesses"
    witnesses.mkdir()
    program = tmp_path / "provision"
    provision = tmp_path / "bin" / "provision"
    program.write_text(
        f'#!/bin/sh\n{provision} "$@" || exit 1\n[ "$1$4" != madepart-1 ] || [ -e {killed} ] || {{ : > {killed}; kill -9 $$; }}\n'
    )
    program.chmod(0o755)
    folder = tmp_path / "module"
    folder.mkdir()
    main = REAL_MODULE.format(program=program, witness=witnesses, name="real-0", seconds=0.1)
    (folder / "main.tf").write_text(main)
    _tofu(folder, "init")
    for number in (1, 2):
        plan = tmp_path / "engine-files" / f"job_{number}.1" / "produced" / "plan"
        plan.parent.mkdir(parents=True)
        _tofu(folder, "plan", f"-out={plan}")
        _tofu(folder, "apply", str(plan))
    records = witness.read(witnesses)
    assert killed.exists()
    assert [(one.owner, one.what) for one in records if one.resource == "part-1"] == [
        ("job_1.1", "made"),
        ("job_2.1", "destroyed"),
        ("job_2.1", "made"),
    ]
    assert list(made_twice(records, [])) == []


def _tofu(folder: Path, *arguments: str) -> None:
    """Run a command of the real engine; an apply may fail, because a provisioner does."""
    found = discovery.find("tofu")
    assert found is not None
    subprocess.run([found.path, *arguments], cwd=folder, check=arguments[0] != "apply", capture_output=True)
