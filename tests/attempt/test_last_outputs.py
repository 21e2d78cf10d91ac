"""The outputs of a module's last job stay in the runner's working directory, without sensitive ones."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import files, last_outputs
from terracrew.attempt.last_outputs import LastOutputs
from terracrew.protocol.events import MAX_INLINE_OUTPUTS_BYTES, Output
from tests.runner.conftest import granted

pytestmark = pytest.mark.feature("J14.persist")
SPEC = granted().spec


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    return folder


def test_the_last_outputs_of_a_module_are_kept_without_sensitive_ones(tmp_path: Path, kept: Path) -> None:
    outputs = {"url": Output("http://x"), "password": Output("hunter2", is_sensitive=True)}
    last_outputs.record(tmp_path, SPEC, outputs, "ab")
    assert "hunter2" not in (tmp_path / files.LAST_OUTPUTS).read_text()
    last_outputs.keep(tmp_path, kept)
    [path] = kept.iterdir()
    assert (path.name, path.stat().st_mode & 0o777) == ("mod_1.json", 0o600)
    assert json.loads(path.read_text()) == {
        "module_id": "mod_1",
        "module": "a/m",
        "job": 1,
        "attempt": 1,
        "sha256": "ab",
        "outputs": {"url": "http://x"},
    }
    last_outputs.record(tmp_path, SPEC, {"url": Output("http://y")}, "cd")
    last_outputs.keep(tmp_path, kept)
    assert json.loads(path.read_text())["outputs"] == {"url": "http://y"}


@pytest.mark.parametrize("outputs", [{}, {"a": Output("x" * MAX_INLINE_OUTPUTS_BYTES)}])
def test_outputs_that_are_none_or_too_large_take_away_the_earlier_ones(
    tmp_path: Path, kept: Path, outputs: dict[str, Output]
) -> None:
    (kept / "mod_1.json").write_text("{}")
    last_outputs.record(tmp_path, SPEC, outputs, "ab")
    last_outputs.keep(tmp_path, kept)
    assert list(kept.iterdir()) == []


def test_a_job_without_outputs_leaves_those_of_an_earlier_one(tmp_path: Path, kept: Path) -> None:
    (kept / "mod_1.json").write_text("{}")
    last_outputs.keep(tmp_path, kept)
    (tmp_path / files.LAST_OUTPUTS).write_text("not JSON")
    last_outputs.keep(tmp_path, kept)
    assert [path.name for path in kept.iterdir()] == ["mod_1.json"]


@pytest.mark.parametrize("module_id", ["../../evil", "a/b", "", ".", "mod_1\n"])
def test_a_grant_cannot_choose_another_place(tmp_path: Path, kept: Path, module_id: str) -> None:
    found = LastOutputs(module_id, "a/m", 1, 1, "ab", {"url": "x"})
    (tmp_path / files.LAST_OUTPUTS).write_bytes(msgspec.json.encode(found))
    before = sorted(tmp_path.rglob("*"))
    last_outputs.keep(tmp_path, kept)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_oldest_ones_make_room(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_outputs, "MAX_KEPT_MODULES", 2)
    for number, name in enumerate(("mod_8.json", "mod_9.json")):
        (kept / name).write_text("{}")
        os.utime(kept / name, (number, number))
    last_outputs.record(tmp_path, SPEC, {"url": Output("http://x")}, "ab")
    last_outputs.keep(tmp_path, kept)
    assert {path.name for path in kept.iterdir()} == {"mod_1.json", "mod_9.json"}
