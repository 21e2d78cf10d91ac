"""The entry: help is quick and complete, mistakes are told in words, exit codes mean what the docs say."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from terracrew import errors
from terracrew.cli.main import COMMANDS
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer


@pytest.mark.feature("E1.commands")
@pytest.mark.parametrize("command", [(), *[(name,) for name in COMMANDS]])
def test_every_command_explains_itself(terracrew: Terracrew, command: tuple[str, ...]) -> None:
    out = terracrew(*command, "--help")
    assert terracrew.code == 0
    assert out.startswith("Usage: terracrew")


def test_help_loads_nothing_that_is_slow_to_load() -> None:
    program = (
        "import sys; from terracrew.cli.main import run; run(['--help']);"
        "slow = {'rich', 'urllib3', 'msgspec', 'litestar', 'pydantic', 'asyncio', 'uvicorn'};"
        "print(*slow & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr.split() == []


@pytest.mark.feature("E1.codes")
def test_a_misspelled_command_gets_a_suggestion(terracrew: Terracrew) -> None:
    terracrew("modul", "list")
    assert terracrew.code == 2
    assert "Did you mean 'module'?" in terracrew.err


@pytest.mark.feature("E1.codes")
@pytest.mark.parametrize(
    ("arguments", "words", "command"),
    [
        (("job", "run"), "missing argument 'MODULE'", "job run"),
        (("job", "list", "--fast"), "no such option '--fast'", "job list"),
        (("job", "list", "--limit", "x"), "invalid value for '--limit': 'x' is not a valid whole number", "job list"),
    ],
)
def test_a_wrong_use_is_told_like_any_other_error(
    terracrew: Terracrew, arguments: tuple[str, ...], words: str, command: str
) -> None:
    """It was told by click, in another style: "Usage: …", "Try 'terracrew job run --help' for help.", "Error: …"."""
    terracrew(*arguments)
    assert (terracrew.code, terracrew.out) == (2, "")
    assert terracrew.err == f"error: {words}\nhint: see `terracrew {command} --help`\n"


@pytest.mark.feature("E1.codes")
@pytest.mark.parametrize(
    ("status", "code", "exit_code"),
    [
        (400, "invalid", 2),
        (401, "unauthenticated", 3),
        (403, "forbidden", 3),
        (404, "not_found", 4),
        (409, "conflict", 5),
    ],
)
def test_an_error_of_the_server_is_a_message_and_an_exit_code(
    terracrew: Terracrew, server: ScriptedServer, status: int, code: str, exit_code: int
) -> None:
    server.then(lambda asked: asked.problem(status, code, "the group `a` is not empty", hint="empty it first"))
    terracrew("group", "delete", "a")
    assert (terracrew.code, terracrew.out) == (exit_code, "")
    assert terracrew.err == "error: the group `a` is not empty\nhint: empty it first\n"


@pytest.mark.feature("E1.codes")
def test_debug_shows_where_an_error_comes_from(terracrew: Terracrew, server: ScriptedServer) -> None:
    with pytest.raises(errors.NotFound):
        terracrew("--debug", "group", "delete", "a")


@pytest.mark.feature("E1.codes")
def test_no_server_and_no_token_says_that_there_is_no_server(terracrew: Terracrew) -> None:
    terracrew("--url", "http://127.0.0.1:9", "job", "list")
    assert terracrew.code == 6
    assert terracrew.err.startswith(
        "error: no server answers at http://127.0.0.1:9\nhint: start one with `terracrew up`"
    )


@pytest.mark.feature("E1.codes")
def test_a_server_without_a_token_says_how_to_log_in(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TERRACREW_TOKEN")
    server.on("GET /readyz", {})
    terracrew("job", "list")
    assert terracrew.code == 3
    assert f"`terracrew --url {server.url} login`" in terracrew.err


@pytest.mark.feature("E1.completion")
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_program(terracrew: Terracrew, shell: str) -> None:
    assert "_TERRACREW_COMPLETE" in terracrew("completion", shell)


@pytest.mark.feature("E1.completion")
def test_completion_knows_commands_that_are_not_loaded(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("terracrew")
    words = {"COMP_WORDS": "terracrew job ca", "COMP_CWORD": "2", "_TERRACREW_COMPLETE": "bash_complete"}
    done = subprocess.run([program], env=os.environ | words, capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.split() == ["plain,cancel"]


@pytest.mark.feature("E1.codes")
def test_ctrl_c_ends_quietly_with_130(server: ScriptedServer, home: Path) -> None:
    waiting = threading.Event()

    def hold(asked: Asked) -> None:
        asked.stream(b": alive\n\n")
        waiting.set()

    server.routes["GET /api/v1/events"] = hold
    server.on("GET /api/v1/jobs/job_1", {"id": "job_1", "number": 1, "status": "PROCESSING"})
    process = subprocess.Popen(
        [sys.executable, "-m", "terracrew.cli", "job", "wait", "job_1"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert waiting.wait(20)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err
    assert b"the job continues; `terracrew job cancel job_1` ends it" in err
