"""The cache of installed engines, as other users than the one who fills it see it."""

import os
from pathlib import Path

import pytest

from terracrew.toolchains import cache


def test_every_user_can_run_an_installed_engine_also_with_a_strict_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engines of a runner of root run as other users, who could not enter the directory of the engine."""
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "cache"))
    program = tmp_path / "tofu"
    program.write_text("a program")
    before = os.umask(0o077)
    try:
        cache.publish([program], cache.directory("tofu", "1.12.6"))
    finally:
        os.umask(before)
    placed = cache.directory("tofu", "1.12.6") / "tofu"
    engines = tmp_path / "cache" / "engines"
    folders = [folder for folder in placed.parents if folder.is_relative_to(engines)]
    assert len(folders) == 4
    assert [oct(path.stat().st_mode & 0o777) for path in (placed, *folders)] == ["0o755"] * 5
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0, "the rest of the cache stays closed"
