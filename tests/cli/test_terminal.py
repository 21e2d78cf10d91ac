"""What others wrote, on a real terminal: it may be coloured, and nothing else of it is acted upon."""

import os
import pty
import subprocess
import sys
from typing import Any

import pytest

from terracrew.cli.printing.streams import GuardedStream
from tests.client.scripted_server import ScriptedServer

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
LINK = "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\"
HOSTILE = f"be{CLIPBOARD}gin\x1b[2J\x1b[1;1H{LINK}\x9b2K\x9d0;title\x9c\x1bPq\x1b\\\x08\x7fend"
GROUP = {"path": HOSTILE, "description": HOSTILE, "id": HOSTILE, "created_at": "2026-01-01T00:00:00Z"}
COMMANDS: dict[str, tuple[list[str], Any]] = {
    "error": (["module", "show", "a"], None),
    "raw": (["api", "GET", "/anything"], {"name": HOSTILE, HOSTILE: [HOSTILE]}),
    "groups": (["group", "list"], {"items": [GROUP], "next": None}),
}


def on_a_terminal(arguments: list[str]) -> str:
    """Everything that a terminal gets from the command line."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "terracrew.cli", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    received = b""
    try:
        while piece := os.read(ours, 1 << 16):
            received += piece
    except OSError:  # Linux says so when nobody has the other end any more
        pass
    finally:
        os.close(ours)
        process.wait(30)
    return received.decode()


@pytest.mark.parametrize("command", ["error", "raw", "groups"])
def test_no_sequence_of_others_reaches_the_terminal(server: ScriptedServer, command: str) -> None:
    """A name or a message with OSC 52 wrote to the clipboard of whoever looked at it, and OSC 8 made links of it."""
    arguments, answer = COMMANDS[command]
    if answer is None:
        server.then(*[lambda asked: asked.problem(409, "conflict", HOSTILE, hint=HOSTILE)] * 3)
    else:
        server.then(*[lambda asked: asked.answer(200, answer)] * 3)
    text = on_a_terminal(arguments)
    assert "gin" in text
    for forbidden in ("\x1b]", "\x1b[2J", "\x1b[1;1H", "\x9b", "\x9d", "\x1bP", "\x07", "\x08", "\x7f"):
        assert forbidden not in text, repr(forbidden)


def test_colours_and_progress_on_one_line_pass_and_a_sequence_in_two_pieces_does_not(tmp_path: Any) -> None:
    with open(tmp_path / "terminal", "w") as raw:
        stream = GuardedStream(raw)
        for piece in ("\x1b[31mred\x1b[0m\r50 %", "\x1b", "]52;c;ZX", "Zpb\x07 done", "\x1b[2"):
            assert stream.write(piece) == len(piece)
        stream.flush()
        assert (tmp_path / "terminal").read_bytes() == b"\x1b[31mred\x1b[0m\r50 % done"
        stream.detach()
