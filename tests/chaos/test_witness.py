"""What the resources of the real engine record about themselves is what exists."""

import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from terracrew.toolchains import discovery
from tests.chaos import witness
from tests.chaos.installation import install_programs
from tests.chaos.made_once import Look, made_twice
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
    folder = _module(tmp_path, program, witnesses)
    for job in ("job_1", "job_2"):
        _apply(folder, job)
    records = witness.read(witnesses)
    assert killed.exists()
    assert [(one.owner, one.what) for one in records if one.resource == "part-1"] == [
        ("job_1.1", "made"),
        ("job_2.1", "destroyed"),
        ("job_2.1", "made"),
    ]
    assert list(made_twice(records, [])) == []


@pytest.mark.engine
@pytest.mark.timeout(120)
def test_a_plan_that_changes_nothing_leaves_a_sign_that_it_was_applied(tmp_path: Path) -> None:
    """`made real-3/part-1 while another exists, and nobody was asked`: a person had been shown the attempt that was cut short, and
    had approved the destruction of the module. The state was empty, so the real engine ran nothing that could leave a witness."""
    install_programs(tmp_path / "bin")
    witnesses = tmp_path / "witnesses"
    witnesses.mkdir()
    folder = _module(tmp_path, tmp_path / "bin" / "provision", witnesses)
    _apply(folder, "job_1")
    (folder / "terraform.tfstate").unlink()  # as if it had been killed before its first save
    _apply(folder, "job_2", "-destroy")
    _apply(folder, "job_3")
    records = witness.read(witnesses)
    [destroyed] = [one.at for one in records if one.job == "job_2"]
    approved = Look(destroyed - 0.001, "approve", "job_2", "real-0", frozenset({"job_1.1"}))
    assert len(list(made_twice(records, []))) == 3
    assert list(made_twice(records, [approved])) == []


def _module(tmp_path: Path, program: Path, witnesses: Path) -> Path:
    """A module for the real engine, as a chaos run has it."""
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "main.tf").write_text(REAL_MODULE.format(program=program, witness=witnesses, name="real-0", seconds=0.1))
    (folder / "witness.json").write_bytes(msgspec.json.encode({"name": "real-0", "witness": str(witnesses)}))
    _tofu(folder, "init")
    return folder


def _apply(folder: Path, job: str, *flags: str) -> None:
    time.sleep(1 - time.time() % 1)  # `plantimestamp()` has seconds, and only another one replaces anything
    plan = folder.parent / "engine-files" / f"{job}.1" / "produced" / "plan"
    plan.parent.mkdir(parents=True)
    _tofu(folder, "plan", *flags, f"-out={plan}")
    _tofu(folder, "apply", str(plan))


def _tofu(folder: Path, *arguments: str) -> None:
    """Run a command of the engine that becomes the real one; an apply may fail, because a provisioner does."""
    found = discovery.find("tofu")
    assert found is not None
    program = folder.parent / "bin" / "tofu"
    is_apply = arguments[0] == "apply"
    subprocess.run([program, *arguments], cwd=folder, check=not is_apply, env={"CHAOS_TOFU": found.path})
