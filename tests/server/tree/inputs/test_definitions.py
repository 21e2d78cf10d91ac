"""Inputs that say something about the job are set at any place, and their values are known to the executor."""

import pytest

from terracrew.protocol.spec import DefinedInput
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import granted, tree


@pytest.mark.feature("J6.definitions")
async def test_definitions_of_groups_reach_the_jobs_of_their_modules(runner: SimulatedRunner) -> None:
    admin, module_id = runner.app.admin, await tree(runner.app)
    for body in (
        {"place": "/", "name": "where", "definition": "module_path"},
        {"place": "platform", "name": "COMMIT", "definition": "source_commit", "target": "environment"},
    ):
        answer = await admin.post("/api/v1/inputs", json=body)
        assert answer.status_code == 200, answer.text
    spec, job = await granted(runner, module_id)
    assert spec.definitions == [
        DefinedInput("environment", "COMMIT", "source_commit"),
        DefinedInput("variable", "where", "module_path"),
    ]
    assert (spec.inputs, spec.environment, spec.inherited) == ({}, {}, ["where"])
    listed = await admin.listed("/api/v1/inputs", place="platform/network/vpc")
    assert [(each["name"], each["definition"], each["is_hidden"]) for each in listed] == [
        ("COMMIT", "source_commit", False),
        ("where", "module_path", False),
    ]
    used = (await admin.get(f"/api/v1/jobs/{job['id']}/inputs")).json()["items"]
    assert {each["kind"] for each in used} == {"definition"}


@on_one
@pytest.mark.feature("J6.definitions")
async def test_bad_definitions_are_refused(application: Application) -> None:
    for bad in (
        {"name": "a", "definition": "password"},
        {"name": "a", "definition": "module_path", "value": 1},
        {"name": "a", "definition": "module_path", "target": "file"},
    ):
        await application.admin.refused("POST", "/api/v1/inputs", 400, json=bad)
