"""The executor gives files to the user of engines, who may have put links to other people's files there."""

import os
from pathlib import Path

import pytest

from terracrew.attempt import files
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Invalid
from terracrew.executor.engines import engine_user
from terracrew.executor.engines.engine_user import EngineUser

pytestmark = [
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users"),
]
UID = 23470


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineUser:
    """The user of an attempt with a workspace."""
    monkeypatch.setattr(engine_user, "chosen_user", None)
    directory, workspace = tmp_path / "attempt", tmp_path / "workspace"
    made = EngineDirectory(tmp_path / "engine-files")
    for folder in (directory, workspace):
        folder.mkdir(mode=0o700)
    made.make()
    (directory / files.WORKSPACE).symlink_to(workspace)
    user = EngineUser(UID, UID, directory, made)
    engine_user.choose(user)
    return user


def owner(path: Path) -> int:
    return path.lstat().st_uid


def test_workspace_and_produced_files_become_the_engines_and_provided_ones_are_only_readable(
    chosen: EngineUser, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "folder").mkdir()
    (workspace / "folder" / "main.tf").touch()
    (chosen.files.provided / "config").touch(mode=0o600)
    engine_user.prepare()
    for path in (workspace, workspace / "folder", workspace / "folder" / "main.tf", chosen.files.produced):
        assert owner(path) == UID
    for path in (chosen.files.path, chosen.files.provided, chosen.files.provided / "config", chosen.directory):
        assert owner(path) == 0
    assert (chosen.files.provided / "config").stat().st_mode & 0o777 == 0o640
    assert chosen.directory.stat().st_mode & 0o077 == 0


def test_what_links_lead_to_is_not_given_away(chosen: EngineUser, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.touch(mode=0o600)
    folder.mkdir(mode=0o700)
    (folder / "inside").touch()
    workspace = tmp_path / "workspace"
    (workspace / "link").symlink_to(secret)
    (workspace / "linked").symlink_to(folder)
    (workspace / "hard").hardlink_to(secret)
    (chosen.files.produced / "linked").symlink_to(folder)
    engine_user.prepare()
    assert [owner(each) for each in (secret, folder, folder / "inside")] == [0, 0, 0]


def test_nothing_is_done_before_there_is_a_workspace(chosen: EngineUser) -> None:
    (chosen.directory / files.WORKSPACE).unlink()
    engine_user.prepare()
    assert owner(chosen.files.produced) == UID


def test_a_program_that_the_user_cannot_reach_is_named_with_what_to_do(chosen: EngineUser, tmp_path: Path) -> None:
    program = tmp_path / "closed" / "tofu"
    program.parent.mkdir(mode=0o700)
    program.touch(mode=0o755)
    with pytest.raises(Invalid, match=r"set TERRACREW_CACHE or engine\.additional_binary_paths"):
        engine_user.require_reachable(str(program))
    engine_user.require_reachable("/bin/sh")
    assert chosen.uid == UID
