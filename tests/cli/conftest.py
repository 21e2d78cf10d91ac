"""The command line in this process, against a scripted server on loopback, in a home of its own."""

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.cli.main import run
from tests.cli import api_answers
from tests.client.scripted_server import Asked, ScriptedServer, running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith(("TERRACREW_", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    monkeypatch.setattr(Asked, "answer", api_answers.completing(Asked.answer))
    with running() as found:
        monkeypatch.setenv("TERRACREW_URL", found.url)
        monkeypatch.setenv("TERRACREW_TOKEN", "tcu_secret")
        found.on("GET /api/v1/jobs/job_1/diff?limit=100", {"attempt": None, "items": [], "next": None})
        yield found


class Terracrew:
    """Calls the command line and keeps what it said."""

    def __init__(self, captured: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._captured, self._monkeypatch = captured, monkeypatch
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        self._monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        self.code = run(list(arguments))
        self.out, self.err = self._captured.readouterr()
        return self.out


@pytest.fixture
def terracrew(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terracrew:
    return Terracrew(capsys, monkeypatch)
