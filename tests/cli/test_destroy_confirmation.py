"""Destroying on the command line: never by a combination of flags, never without a question that names what is destroyed."""

import io
from typing import Any

import pytest

from terracrew.cli.main import run
from tests.cli.conftest import Terracrew
from tests.cli.job_views import JOB, view
from tests.client.scripted_server import ScriptedServer

pytestmark = [pytest.mark.feature("E1.commands"), pytest.mark.feature("J1.modules")]
NAMES = [f"aws_instance.web[{number}]" for number in range(20)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def answered(monkeypatch: pytest.MonkeyPatch, answer: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    return run(list(arguments))


@pytest.fixture
def module(server: ScriptedServer) -> ScriptedServer:
    server.on("POST /api/v1/modules/a%2Fm/jobs", JOB, 201)
    rule = {"name": "min_approvals", "value": 2, "path": "a"}
    server.on("GET /api/v1/modules/a%2Fm", {"approval_rules": [rule], "used_by": ["a/b", "a/c"]})
    server.on("GET /api/v1/modules/a%2Fm/resources", {"version": 4, "count": 25, "addresses": NAMES})
    return server


def posted(server: ScriptedServer) -> list[Any]:
    return [asked.json() if asked.body else None for asked in server.asked if repr(asked).startswith("POST")]


def test_a_plan_of_a_destroy_destroys_nothing(terracrew: Terracrew, module: ScriptedServer) -> None:
    """`job run M --plan --destroy` destroyed everything: the last flag won silently."""
    terracrew("job", "run", "a/m", "--plan", "--destroy")
    terracrew("job", "run", "a/m", "--destroy", "--plan")
    assert posted(module) == [{"type": "PLAN", "is_destroy_plan": True}] * 2


@pytest.mark.parametrize("flags", [("--apply", "--destroy"), ("--destroy", "--apply"), ("--plan", "--apply")])
def test_flags_that_contradict_each_other_queue_nothing(
    terracrew: Terracrew, module: ScriptedServer, flags: tuple[str, str]
) -> None:
    terracrew("job", "run", "a/m", *flags, "--yes")
    assert (terracrew.code, module.asked) == (2, [])
    assert "--apply and --" in terracrew.err
    assert "cannot be combined" in terracrew.err


def test_on_a_terminal_a_destroy_names_what_it_destroys_and_asks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: ScriptedServer
) -> None:
    assert answered(monkeypatch, "n\n", "job", "run", "a/m", "--destroy") == 1
    said = capsys.readouterr().err
    for words in (
        "a/m manages 25 resources",
        "aws_instance.web[0]",
        "aws_instance.web[9]",
        "and 15 more",
        "2 modules use its outputs: a/b and a/c.",
        "Then 2 people must approve the plan, because a requires it.",
        "Not destroyed",
    ):
        assert words in said
    assert "aws_instance.web[10]" not in said
    assert posted(module) == []
    assert answered(monkeypatch, "y\n", "job", "run", "a/m", "--destroy") == 0
    assert posted(module) == [{"type": "DESTROY"}]


def test_without_a_terminal_a_destroy_needs_to_be_confirmed_by_a_flag(
    terracrew: Terracrew, module: ScriptedServer
) -> None:
    terracrew("job", "run", "a/m", "--destroy", stdin="y\n")
    assert (terracrew.code, posted(module)) == (2, [])
    assert "--yes" in terracrew.err
    terracrew("job", "run", "a/m", "--destroy", "--yes")
    assert (terracrew.code, posted(module)) == (0, [{"type": "DESTROY"}])


@pytest.mark.feature("J7.options")
def test_a_destroy_of_targets_names_them(terracrew: Terracrew, module: ScriptedServer) -> None:
    terracrew("job", "run", "a/m", "--destroy", "--target", "module.x", "--target", 'b.c["d"]', stdin="y\n")
    assert (terracrew.code, posted(module)) == (2, [])
    assert 'this destroys module.x, b.c["d"] of a/m, and everything that depends on that, and there is' in terracrew.err
    assert "--plan --destroy --target module.x --target 'b.c[\"d\"]'" in terracrew.err


def test_running_a_destroy_again_asks_like_the_first_time(terracrew: Terracrew, module: ScriptedServer) -> None:
    module.on("GET /api/v1/jobs/7", view("SUCCEEDED", type="DESTROY"))
    module.on("POST /api/v1/jobs/7/rerun", JOB, 201)
    terracrew("job", "rerun", "7")
    assert (terracrew.code, posted(module)) == (2, [])
    terracrew("job", "rerun", "7", "--yes")
    assert (terracrew.code, len(posted(module))) == (0, 1)


def test_a_destroy_plan_is_called_so(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.on(
        "GET /api/v1/jobs?limit=50", {"items": [view("SUCCEEDED", type="PLAN", is_destroy_plan=True)], "next": None}
    )
    assert "DESTROY PLAN" in terracrew("job", "list")
