"""An engine, a source and a dispatcher of another package, installed on a runner only, from the API to the state and back."""

import os

import pytest

from terracrew.errors import Invalid
from tests import example_plugin
from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

pytestmark = pytest.mark.timeout(180)

FILES = {"app/notes.json": {"text": '{"notes": {"one": {"text": "1"}}, "outputs": {"answer": "42"}}'}}
MODULE = {
    "path": "notes",
    "engine": "notes",
    "source": {"kind": "plugin", "plugin": "text", "settings": {"files": FILES}, "subdirectory": "app"},
}


@pytest.mark.feature("R3.built-in")
@thorough
def test_a_job_of_another_packages_engine_waits_for_a_runner_that_has_it_and_is_run_by_it(system: System) -> None:
    """The server accepted only the names of engines that it knew, and only its own kinds of sources."""
    system.start_server(runner=False)
    credentials = system.register_runner(allow_multiple_instances=True)
    system.start_runner(credentials, "plain")
    with pytest.raises(Invalid, match="no runner has ever had an engine 'notes'"):
        system.api.post("/modules", MODULE)
    path = os.pathsep.join(filter(None, [str(example_plugin.DIRECTORY), os.environ.get("PYTHONPATH", "")]))
    first = system.start_runner(credentials | {"PYTHONPATH": path}, "with-plug-in")
    eventually(lambda: " as instance with-plug-in" in first.log.read_text(), what="the runner with the plug-in")
    system.api.post("/modules", MODULE)
    first.stop()
    planned = system.run("notes")
    reason = "no online runner has the engine notes: install the package that provides it there"
    eventually(lambda: reason in str(system.job(planned)["reason"]), what="the reason")
    started = system.directory / "started"
    dispatcher = {"TERRACREW_JOB_DISPATCHER__TYPE": "noted", "TERRACREW_JOB_DISPATCHER__DATA__FILE": str(started)}
    system.start_runner(credentials | dispatcher | {"PYTHONPATH": path}, "with-plug-in")
    ended = system.wait(planned)
    assert ended["status"] == "SUCCEEDED", system.log(planned)
    assert ended["plan"]["add"] == 1
    applied = system.wait(system.run("notes", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    steps = {step["name"]: step["status"] for step in applied["steps"]}
    assert (steps["init"], steps["validate"], steps["apply"]) == ("SKIPPED", "SKIPPED", "SUCCEEDED")
    assert "Source: 1 files in the settings" in system.log(applied["id"])
    assert system.state("notes")["notes"] == {"one": "1"}
    assert system.api.get("/modules/notes/outputs")["outputs"]["answer"]["value"] == "42"
    destroyed = system.wait(system.run("notes", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", system.log(destroyed["id"])
    assert system.state("notes")["notes"] == {}
    assert started.read_text().splitlines() == [f"{job}.1" for job in (planned, applied["id"], destroyed["id"])]


def test_a_source_that_its_runner_does_not_have_fails_the_job_before_anything_runs(system: System) -> None:
    system.start_server(runner=True)
    system.api.post("/modules", MODULE | {"engine": "tofu"})
    ended = system.wait(system.run("notes", "APPLY"))
    assert ended["status"] == "FAILED"
    assert "there is no source 'text' here; installed: archive, git, local, registry" in ended["message"]
