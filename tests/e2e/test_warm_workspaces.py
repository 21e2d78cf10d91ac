"""A runner keeps what `init` made for later jobs, as long as its process lives and its settings allow it."""

from typing import Any

import pytest

from tests.e2e import modules
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240), pytest.mark.feature("J3.warm")]


def kept_from(system: System, **fields: Any) -> int | None:
    """Run a plan, and return the number of the job whose `init` it used."""
    ended = system.wait(system.run("app", **fields))
    assert ended["status"] == "SUCCEEDED", system.log(ended["id"])
    [number] = [step["kept_from"] for step in ended["steps"] if step["name"] == "init"]
    assert ("The workspace is warm" in system.log(ended["id"])) == (number is not None)
    return number


def test_what_a_runner_keeps_ends_with_its_process(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", modules.quick())
    assert [kept_from(system), kept_from(system), kept_from(system, is_fresh=True)] == [None, 1, None]
    assert [kept_from(system), kept_from(system)] == [None, 4]
    kept = system.runner_directory() / "warm"
    assert len(list(kept.iterdir())) == 1
    assert runner.stop() == 0
    assert "what init makes is kept" in runner.log.read_text()
    runner = system.start_runner(credentials)
    assert [kept_from(system), kept_from(system)] == [None, 6]
    assert runner.stop() == 0
    system.env["TERRACREW_WARM_WORKSPACES__MAX_MB"] = "0"
    system.start_runner(credentials)
    assert [kept_from(system), kept_from(system)] == [None, None]
    assert not kept.exists()
