"""Extra files are set at places like other inputs, and their contents are shown to nobody."""

from typing import Any

import pytest

from terracrew.protocol.spec import ExtraFile
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SECRET, granted, put, put_secret, tree


@pytest.mark.feature("J6.files")
async def test_extra_files_of_groups_reach_the_jobs_and_are_shown_to_nobody(runner: SimulatedRunner) -> None:
    admin, module_id = runner.app.admin, await tree(runner.app)
    await put(admin, "/", "certs/ca.pem", "of the organization", target="file")
    await put(admin, "platform", "certs/ca.pem", "of the group", target="file", overwrite=True)
    await put_secret(admin, "platform/network/vpc", "key.pem", target="file")
    spec, _ = await granted(runner, module_id)
    assert spec.files == [ExtraFile("certs/ca.pem", "of the group", True), ExtraFile("key.pem", SECRET)]
    assert spec.secrets == [SECRET]
    assert spec.inputs == {}
    assert SECRET not in repr(spec.files)
    listed = await admin.listed("/api/v1/inputs", place="platform/network/vpc")
    assert [(each["name"], each["overwrite"], each["is_hidden"]) for each in listed] == [
        ("certs/ca.pem", True, True),
        ("key.pem", False, True),
    ]
    text = (await admin.get("/api/v1/inputs", params={"place": "platform/network/vpc"})).text
    assert "of the group" not in text
    assert SECRET not in text
    # The inputs that the API of the module replaces are its variables and environment variables.
    await admin.patch(f"/api/v1/modules/{module_id}", json={"inputs": {"a": 1}, "environment": {}})
    assert len(await admin.listed("/api/v1/inputs", place="platform/network/vpc", inherited=False)) == 2
    gone = await admin.delete("/api/v1/inputs", params={"place": "platform", "name": "certs/ca.pem", "target": "file"})
    assert gone.status_code == 204


@on_one
@pytest.mark.feature("J6.files")
@pytest.mark.parametrize(
    "bad",
    [
        {"name": "../a", "value": "x"},
        {"name": "/etc/passwd", "value": "x"},
        {"name": "a/../../b", "value": "x"},
        {"name": "a//b", "value": "x"},
        {"name": ".", "value": "x"},
        {"name": "", "value": "x"},
        {"name": "a\\b", "value": "x"},
        {"name": "a\nb", "value": "x"},
        {"name": "ä.txt", "value": "x"},
        {"name": "x" * 501, "value": "x"},
        {"name": "a", "value": 5},
        {"name": "a", "value": {"content": "x"}},
        {"name": "a", "value": "x" * 300_000},
    ],
)
async def test_bad_files_are_refused(application: Application, bad: dict[str, Any]) -> None:
    answer = await application.admin.post("/api/v1/inputs", json={"target": "file", **bad})
    assert answer.status_code in (400, 413), answer.text
    only = {"name": "a", "value": 1, "overwrite": True}
    await application.admin.refused("POST", "/api/v1/inputs", 400, json=only)
