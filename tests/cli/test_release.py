"""Releases on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.releases import ArtifactView, ReleaseNotes, ReleaseView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

pytestmark = pytest.mark.feature("V4.notes", "E1.commands")


def noted(version: str, **given: Any) -> dict[str, Any]:
    return answer(ReleaseNotes, version=version, released_at="2026-11-01T08:00:00Z", **given)


def test_notes_mark_breaking_and_withdrawn_versions_and_control_no_terminal(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    items = [
        noted("0.3.0", is_breaking=True, breaking_words="Stop it\x1b[2J first.", notes="# New\n\n- \x1b]0;x\x07it"),
        noted("0.2.0", withdrawn_at="2026-11-02T08:00:00Z", withdrawn_reason="broken\rok"),
    ]
    server.then(lambda asked: asked.answer(200, {"items": items, "next": None}))
    out = terracrew("release", "notes", "--since", "0.1.0", "--until", "0.3.0")
    assert server.asked[-1].path == "/api/v1/releases/notes?since=0.1.0&until=0.3.0"
    assert "0.3.0  2026-11-01  BREAKING\nbefore an update: Stop it" in out
    assert "0.2.0  2026-11-01  withdrawn\nwithdrawn: broken" in out
    assert "# New\n\n- " in out, "a pipe gets the Markdown as it was written"
    assert not {"\x1b", "\x07", "\r"} & set(out)


def test_there_may_be_no_notes(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, {"items": [], "next": None}))
    assert terracrew("release", "notes") == ""
    assert "no releases in this range" in terracrew.err


def test_what_is_missing_is_said_before_anything_is_sent(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    folder, changelog = tmp_path / "files", tmp_path / "CHANGELOG.md"
    folder.mkdir()
    changelog.write_text("# Changelog\n\n## 0.1.0\n\n- First.\n")
    wheel = folder / "t-0.2.0-py3-none-any.whl"
    for arguments, words in (
        (("--artifact", str(folder)), "has no files"),
        (("--notes", str(changelog)), "has no notes of 0.2.0"),
    ):
        terracrew("release", "publish", "0.2.0", *arguments)
        assert (terracrew.code, words in terracrew.err) == (2, True), terracrew.err
    wheel.write_bytes(b"x")
    terracrew("release", "publish", "0.2.0", "--artifact", str(wheel))
    assert "the signature" in terracrew.err
    (folder / "setup.exe").write_bytes(b"x")
    terracrew("release", "publish", "0.2.0", "--artifact", str(folder))
    assert "'setup.exe' is not a file of a release" in terracrew.err
    assert server.asked == []


def test_a_withdrawal_asks_first(terracrew: Terracrew, server: ScriptedServer) -> None:
    terracrew("release", "withdraw", "0.2.0", "--reason", "broken", stdin="n\n")
    assert terracrew.code == 1
    assert server.asked == []
    server.then(lambda asked: asked.answer(200, answer(ReleaseView, version="0.2.0")))
    assert terracrew("release", "withdraw", "0.2.0", "--reason", "broken", stdin="y\n") == "withdrew 0.2.0\n"
    assert json.loads(server.asked[-1].body) == {"reason": "broken"}


def test_a_download_with_another_hash_is_not_kept(terracrew: Terracrew, server: ScriptedServer, tmp_path: Path) -> None:
    artifact = answer(ArtifactView, name="SHA256SUMS", sha256="0" * 64, signature="s", kind="checksums")
    server.then(lambda asked: asked.answer(200, answer(ReleaseView, version="0.2.0", artifacts=[artifact])))
    server.then(lambda asked: asked.answer(200, b"changed", "application/octet-stream"))
    terracrew("release", "download", "0.2.0", "SHA256SUMS", "--output", str(tmp_path / "sums"))
    assert "has another hash than the release says" in terracrew.err
    assert list(tmp_path.glob("sums*")) == []
