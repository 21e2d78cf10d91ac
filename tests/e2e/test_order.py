"""The last job of a module that was created is the last one that is applied, also if an earlier one had to be queued again."""

import os
import signal

import pytest

from terracrew.source_rules import archive
from tests.e2e import modules
from tests.e2e.gate import Gate
from tests.e2e.system import System

pytestmark = [pytest.mark.timeout(180), pytest.mark.feature("J10.order")]
RESOURCE = '\nresource "terraform_data" "version" { input = "%s" }\n'


def test_an_apply_that_is_queued_again_does_not_revert_a_newer_one(system: System) -> None:
    """It went behind the newer job, and the older configuration was what existed in the end."""
    with Gate.closed() as gate:
        system.start_server(runner=True)
        system.module("app", modules.gated_plan(gate.address) + RESOURCE % "one")
        first = system.run("app", "APPLY")
        assert gate.reached.wait(60)  # it plans
        _change(system, RESOURCE % "two")
        second = system.run("app", "APPLY")
        os.kill(system.executor(first), signal.SIGTERM)  # as if its host were shut down
        gate.open()
        _succeed(system, first, second)
    (found,) = [each for each in system.state("app")["resources"] if each["name"] == "version"]
    assert found["instances"][0]["attributes"]["output"]["value"] == "two"


def test_a_destroy_that_is_queued_again_does_not_destroy_what_a_later_apply_makes(system: System) -> None:
    """Both jobs succeeded, nobody was asked, and in the end nothing existed."""
    with Gate.closed() as gate:
        system.start_server(runner=True)
        system.module("app", RESOURCE % "old")
        _succeed(system, system.run("app", "APPLY"))
        _change(system, modules.gated_plan(gate.address) + RESOURCE % "old")
        first = system.run("app", "DESTROY")
        assert gate.reached.wait(60)
        _change(system, RESOURCE % "new")
        second = system.run("app", "APPLY")
        os.kill(system.executor(first), signal.SIGTERM)
        gate.open()
        _succeed(system, first, second)
    assert [each["name"] for each in system.state("app")["resources"]] == ["version"]


def _change(system: System, main: str) -> None:
    folder = system.directory / "source" / "app"
    (folder / "main.tf").write_text(main)
    uploaded = system.api.upload("/archives", archive.pack(folder), "application/gzip")
    system.api.patch("/modules/app", {"source": {"kind": "archive", "archive_id": uploaded["id"]}})


def _succeed(system: System, *jobs: str) -> None:
    assert [system.wait(each)["status"] for each in jobs] == ["SUCCEEDED"] * len(jobs)
