"""Groups and modules add hooks and flags to the steps of the jobs in and below them; a job gets those of all its places."""

from typing import Any

import pytest

from terracrew.protocol.spec import Step
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner

API = "/api/v1"
SCRIPT = "#!/bin/sh\necho hello\n"


async def put(application: Application, place: str, step: str, **body: Any) -> Any:
    answer = await application.admin.put(f"{API}/{place}/steps/{step}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.feature("H1.scripts", "J7.flags")
async def test_a_job_gets_the_hooks_and_flags_of_its_module_and_of_every_group_above(runner: SimulatedRunner) -> None:
    application = runner.app
    module = await runner.rows.module()
    path: str = await application.scalar("SELECT path FROM modules")
    root = await application.scalar("SELECT id FROM groups WHERE path = ''")
    outer, inner = {"script": SCRIPT}, {"command": ["make", "check"]}
    await put(application, f"groups/{root}", "plan", before=outer, after=outer, flags={"tofu": ["-parallelism=5"]})
    flags = {"tofu": ["-parallelism=1"], "terraform": ["-compact-warnings"]}
    await put(application, f"modules/{path.replace('/', '%2F')}", "plan", before=inner, after=inner, flags=flags)
    job = await runner.rows.job(module)
    granted = await (await runner.rows.runner(slots=1)).has(job)
    hooks = [(each.when, each.place) for each in granted.spec.hooks]
    assert hooks == [("before", ""), ("before", path), ("after", path), ("after", "")], (
        "a group's hooks run around the module's"
    )
    assert granted.spec.flags == {Step.PLAN: ["-parallelism=5", "-parallelism=1"]}, "the module's come last"
    listed = (await application.admin.get(f"{API}/modules/{path.replace('/', '%2F')}/steps?inherited=true")).json()
    assert [each["path"] for each in listed] == ["", path]
    assert listed[0]["changed_by"] == "admin"


@on_one
@pytest.mark.parametrize(
    ("step", "body", "words"),
    [
        ("plan", {"before": {"script": "echo no interpreter"}}, "names its interpreter"),
        ("plan", {"before": {"script": SCRIPT, "command": ["x"]}}, "either a script or a command"),
        ("plan", {"before": {}}, "either a script or a command"),
        ("plan", {"after": {"command": ["a\0b"]}}, "NUL"),
        ("plan", {"after": {"command": [""]}}, "the command is empty"),
        ("plan", {"before": {"script": "#!/bin/sh\n" + "x" * 70_000}}, "at most 65,536 characters"),
        ("plan", {"flags": {"tofu": ["-out=elsewhere"]}}, "`-out` cannot be added to plan of tofu"),
        ("plan", {"flags": {"tofu": ["--out=elsewhere"]}}, "`-out` cannot be added to plan of tofu"),
        ("apply", {"flags": {"terraform": ["-state=mine"]}}, "`-state` cannot be added"),
        ("plan", {"flags": {"tofu": ["elsewhere.tfplan"]}}, "is not a flag"),
        ("plan", {"flags": {"tofu": ["-var", "x=1"]}}, "is not a flag"),
        ("fetch", {"before": {"script": SCRIPT}}, "is not a command of an engine"),
    ],
)
async def test_what_could_not_run_or_would_break_a_step_is_refused(
    application: Application, step: str, body: dict[str, Any], words: str
) -> None:
    root = await application.scalar("SELECT id FROM groups WHERE path = ''")
    assert words in await application.admin.refused("PUT", f"{API}/groups/{root}/steps/{step}", 400, json=body)
    assert await application.scalar("SELECT count(*) FROM step_settings") == 0


async def test_what_a_place_adds_is_cleared_and_ends_with_the_place(application: Application) -> None:
    await application.admin.made(f"{API}/groups", {"path": "net"})
    await put(application, "groups/net", "init", before={"script": SCRIPT})
    assert (await application.admin.delete(f"{API}/groups/net/steps/init")).status_code == 204
    assert "adds nothing to init" in await application.admin.refused("DELETE", f"{API}/groups/net/steps/init", 404)
    await put(application, "groups/net", "init", before={"script": SCRIPT})
    assert (await application.admin.delete(f"{API}/groups/net")).status_code == 204
    assert await application.scalar("SELECT count(*) FROM step_settings") == 0
    told = await application.admin.listed(f"{API}/audit", action="group")
    assert {"group.set_step", "group.clear_step"} <= {each["action"] for each in told}


async def test_an_organization_that_adds_to_steps_can_be_deleted(application: Application) -> None:
    made = await application.admin.made(f"{API}/organizations", {"name": "third"})
    root = await application.scalar(f"SELECT id FROM groups WHERE path = '' AND organization_id = '{made['id']}'")
    await put(application, f"groups/{root}", "init", before={"script": SCRIPT})
    answer = await application.admin.delete(f"{API}/organizations/third")
    assert answer.status_code in (200, 204), answer.text
    assert await application.scalar("SELECT count(*) FROM step_settings") == 0


async def test_only_who_may_change_a_place_adds_to_its_steps(application: Application) -> None:
    await application.admin.made(f"{API}/groups", {"path": "net"})
    viewer = await application.person("vera", "viewer", "net")
    assert (await viewer.get(f"{API}/groups/net/steps")).json() == []
    await viewer.refused("PUT", f"{API}/groups/net/steps/plan", 403, json={"before": {"script": SCRIPT}})
    stranger = await application.person("sam", "viewer", "", organization="elsewhere")
    await stranger.refused("GET", f"{API}/groups/net/steps", 404)
