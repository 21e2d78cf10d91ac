"""The operator of a runner approves hooks by files: their content counts, and neither their names nor their line endings."""

import os
from pathlib import Path

import pytest

from terracrew.protocol.spec import Hook
from terracrew.runner.attempts import executor_starts

pytestmark = pytest.mark.feature("H2.approved")
SCRIPT = "#!/bin/sh\necho hello\n"


def test_a_file_approves_its_content_under_any_name_and_with_any_line_endings(tmp_path: Path) -> None:
    (tmp_path / "any name").write_bytes(SCRIPT.replace("\n", "\r\n").encode())
    found = executor_starts.read_approved_hooks(str(tmp_path))
    assert found.directory == str(tmp_path)
    assert Hook(SCRIPT).sha256 in found.sha256
    assert Hook(SCRIPT.replace("\n", "\r")).sha256 in found.sha256
    assert Hook(SCRIPT + "rm -rf /\n").sha256 not in found.sha256


def test_a_file_with_a_list_approves_that_command_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "check.json").write_text('["make","check all"]\n')
    found = executor_starts.read_approved_hooks(str(tmp_path))
    assert Hook(command=["make", "check all"]).sha256 in found.sha256
    assert Hook(command=["make", "check", "all"]).sha256 not in found.sha256


def test_what_is_no_regular_file_approves_nothing_and_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(executor_starts.MAX_HOOK_BYTES + 1)
    assert executor_starts.read_approved_hooks(str(tmp_path)).sha256 == []
    assert executor_starts.read_approved_hooks(str(tmp_path / "nowhere")).sha256 == []
    assert executor_starts.read_approved_hooks("").directory == ""


def test_a_link_to_a_file_approves_the_content_of_the_file(tmp_path: Path) -> None:
    """A directory that is mounted from a ConfigMap has links only."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "check").write_text(SCRIPT)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "check").symlink_to("../data/check")
    (tmp_path / "hooks" / "all").symlink_to("../data")
    (tmp_path / "hooks" / "loop").symlink_to("loop")
    assert executor_starts.read_approved_hooks(str(tmp_path / "hooks")).sha256 == [Hook(SCRIPT).sha256]
