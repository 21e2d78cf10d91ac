"""A held server on the command line."""

import json
from typing import Any

from terracrew.api.job_views import HeldModuleListed, Hold, HoldView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

HELD = answer(
    HoldView,
    is_held=True,
    hold=answer(
        Hold,
        reason="it was started on the backup of 2026-11-18 00:33:03 UTC",
        set_back_to="2026-11-18T00:33:02Z",
        started_at="2026-11-18T00:40:00Z",
    ),
    held_modules=2,
    changed_modules=1,
    modules=[
        answer(HeldModuleListed, path="g/d", is_held=True, evidence="attempt 1 of job 2 was claimed after that"),
        answer(HeldModuleListed, path="g/a", is_held=True),
    ],
)
FREE = answer(HoldView)


def test_a_held_server_says_why_and_what_is_known_of_its_modules(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, HELD))
    shown = terracrew("server", "hold")
    assert "it was started on the backup of" in shown
    assert "the database was set back to 2026-11-18 00:33:02 UTC and knows nothing" in shown
    assert [line.split()[:2] for line in shown.splitlines() if line.startswith("g/")] == [
        ["g/d", "held"],
        ["g/a", "held"],
    ]
    assert "may have been changed" in shown
    assert "terracrew server release" in shown


def test_modules_are_released_one_by_one_and_everything_only_on_request(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    bodies: list[Any] = []

    def release(asked: Any) -> Any:
        bodies.append(json.loads(asked.body))
        return asked.answer(200, FREE)

    server.then(release, release, release)
    terracrew("server", "release", "g/a", "g/d")
    assert "is not held" in terracrew("server", "release", "--all", "--untouched")
    assert bodies == [
        {"module": "g/a", "is_untouched": False},
        {"module": "g/d", "is_untouched": False},
        {"module": None, "is_untouched": True},
    ]
    terracrew("server", "release")
    assert terracrew.code == 2
    assert "name the modules to release, or give --all" in terracrew.err
