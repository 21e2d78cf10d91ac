"""A transfer that takes long shows how far it is: on a terminal, and nowhere else."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from terracrew.cli.printing import progress
from terracrew.protocol.transfers import PART_BYTES
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("E1.progress")


class Terminal(io.StringIO):
    """A standard error that is a terminal, and notes when a text is shown on it."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()
        self.awaited = "uploading"

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        written = super().write(text)
        if self.awaited in self.getvalue():
            self.shown.set()
        return written


@pytest.fixture
def upload(tmp_path: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Terminal]:
    """The arguments that upload a folder of more than one part, and the terminal; the last part waits for the bar."""
    folder = tmp_path / "vpc"
    folder.mkdir()
    (folder / "main.tf").write_bytes(os.urandom(PART_BYTES + 100_000))
    terminal = Terminal()
    staged = {"id": "upl_1", "part_bytes": PART_BYTES, "missing": [0, 1]}
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    server.on("PUT /api/v1/uploads", staged)
    server.on("PUT /api/v1/uploads/upl_1/0", {})
    server.on("PUT /api/v1/uploads/upl_1/1", {})
    server.on("POST /api/v1/archives", {"id": "arc_1"}, 201)
    made: dict[str, Any] = {"path": "vpc", "number": 7, "status": "QUEUED", "type": "PLAN"}
    server.on("POST /api/v1/modules", made, 201)
    server.on("POST /api/v1/modules/vpc/jobs", made, 201)
    return ["--from", str(folder)], terminal


@pytest.mark.parametrize("command", [["module", "create", "vpc"], ["job", "run", "vpc"]])
def test_an_upload_that_takes_long_shows_a_bar(
    terracrew: Terracrew,
    server: ScriptedServer,
    upload: tuple[list[str], Terminal],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
) -> None:
    """An upload of hundreds of megabytes printed nothing while it packed, and nothing for one part."""
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.01)
    options, terminal = upload
    monkeypatch.setattr("sys.stderr", terminal)  # here, because the capture of a test begins after its fixtures

    def slow(asked: Asked) -> None:
        assert terminal.shown.wait(20), "the bar is shown while the upload waits"
        asked.answer(200, {})

    server.routes["PUT /api/v1/uploads/upl_1/1"] = slow
    terracrew(*command, *options)
    assert terracrew.code == 0, terminal.getvalue()
    assert "of 0.9 MB" in terminal.getvalue()


def test_a_quick_upload_shows_no_bar(
    terracrew: Terracrew, upload: tuple[list[str], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    options, terminal = upload
    monkeypatch.setattr("sys.stderr", terminal)  # here, because the capture of a test begins after its fixtures
    terracrew("module", "create", "vpc", *options)
    assert (terracrew.code, "uploading" in terminal.getvalue()) == (0, False)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_nothing_is_shown_with_json_or_without_a_terminal(
    terracrew: Terracrew,
    upload: tuple[list[str], Terminal],
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
) -> None:
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    options, terminal = upload
    monkeypatch.setattr("sys.stderr", terminal)  # here, because the capture of a test begins after its fixtures
    monkeypatch.setattr(terminal, "isatty", lambda: is_terminal)
    terracrew("module", "create", "vpc", *options, *(["--json"] if is_terminal else []))
    assert (terracrew.code, "uploading" in terminal.getvalue()) == (0, False)
