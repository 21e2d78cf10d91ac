"""Commands that wait for something on the server wait through its restart."""

from collections.abc import Callable
from typing import Any

import pytest

from terracrew.api.runners import Remaining, RunnerRemoval, RunnerView
from terracrew.cli.commands import group_runs
from terracrew.cli.commands.runner import drain
from terracrew.cli.commands.server import operations
from terracrew.cli.connection import deadline
from terracrew.client import http
from tests.cli.answers import THEN, answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import Asked, ScriptedServer

pytestmark = pytest.mark.feature("E1.progress")
RESTARTING = 8
"""More answers than a request is repeated that does not wait for anything."""
RUN: dict[str, Any] = {"id": "grn_1", "path": "team", "type": "APPLY", "status": "RUNNING", "modules": []}
LEFT = answer(
    Remaining,
    id="rnr_1",
    path="a/r",
    is_draining=True,
    is_drained=False,
    removing_since=THEN,
    job_count=0,
    jobs=[],
    delivering=1,
)
REMOVING = answer(RunnerRemoval, path="a/r", is_removed=False, remaining=LEFT)
RUNNER = answer(RunnerView, id="rnr_1", path="a/r")
REKEY: dict[str, Any] = {"status": "running", "key_id": "k", "encrypted": 1, "doing": "states", "done": 1}
PREVIEW: dict[str, Any] = {
    "policy": {
        "logs_days": 1,
        "states_days": 1,
        "states_count": 1,
        "plans_days": 1,
        "archives_days": 1,
        "audit_days": 1,
    },
    "retention": {},
    "orphans": {},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (group_runs, "POLL_SECONDS"),
        (drain, "POLL_SECONDS"),
        (operations, "POLL_SECONDS"),
        (http, "_FIRST_DELAY_SECONDS"),
        (http, "_MAX_DELAY_SECONDS"),
    ):
        monkeypatch.setattr(module, name, 0.001)


def starting(asked: Asked) -> None:
    asked.problem(503, "unavailable", "the server starts")


def answering(body: Any) -> Callable[[Asked], None]:
    """Answer with this body; None stands for something that does not exist any more."""
    return lambda asked: asked.problem(404, "not_found", "it is gone") if body is None else asked.answer(200, body)


@pytest.mark.parametrize(
    ("command", "before", "end"),
    [
        ("group apply team", [RUN, RUN], RUN | {"status": "SUCCEEDED"}),
        ("group destroy team --yes", [RUN, RUN], RUN | {"status": "SUCCEEDED"}),
        ("group progress team --follow", [{"items": [RUN]}, RUN, RUN], RUN | {"status": "SUCCEEDED"}),
        ("runner drain a/r --wait", [RUNNER, LEFT], LEFT | {"is_drained": True}),
        ("runner remove a/r --yes", [REMOVING, LEFT], None),
        ("server rekey", [REKEY, REKEY], REKEY | {"status": "finished"}),
        ("server retention --dry-run", [{"counting": "logs"}], PREVIEW),
    ],
)
def test_a_command_that_waits_outlasts_a_restart_of_the_server(
    terracrew: Terracrew, server: ScriptedServer, command: str, before: list[Any], end: Any
) -> None:
    """Symptom: `group apply` ended with «no server answers» and exit code 6 when the server was restarted, although the run went on."""
    server.then(*map(answering, before))
    server.then(*[starting] * RESTARTING)
    server.then(answering(end))
    terracrew(*command.split())
    assert terracrew.code == 0, terracrew.err
    assert terracrew.err.count("waiting: the server starts") == 1


def test_a_command_that_never_reached_a_server_does_not_wait(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(*[starting] * RESTARTING)
    terracrew("server", "retention", "--dry-run")
    assert terracrew.code == 6
    assert server.script, "it was not asked again and again"


def test_events_say_that_the_server_is_away(
    terracrew: Terracrew, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.then(lambda asked: asked.stream(b"event: jobs\ndata: job_1\n\n"), *[starting] * RESTARTING)
    server.then(lambda asked: asked.problem(401, "unauthenticated", "the token was revoked"))
    terracrew("events")
    assert terracrew.out == "jobs  job_1\n"
    assert "waiting: the server starts" in terracrew.err
    assert "the token was revoked" in terracrew.err
    assert deadline.MAX_OUTAGE_SECONDS == 300
