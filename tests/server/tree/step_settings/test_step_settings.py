"""Groups and modules add hooks and flags to the steps of the jobs in and below them; a job gets those of all its places."""

from typing import Any

import pytest

from terracrew.api.steps import NewStepSettings
from terracrew.errors import NotFound
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import DefinedInput, Hook, PlaceEnvironment, Step
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import step_settings
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import PLACE, granted, put_secret, tree
from tests.server.tree.inputs.places import put as set_input

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
        ("plan", {"flags": {"tofu": ["-var", "x=1"]}}, "`-var` needs a value"),
        ("apply", {"flags": {"tofu": ["-var-file"]}}, "`-var-file` needs a value"),
        ("init", {"flags": {"tofu": ["-cloud=false"]}}, "`-cloud` cannot be added"),
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


@pytest.mark.parametrize("kind", ["groups", "modules"])
async def test_nothing_is_added_to_a_place_that_is_deleted_at_the_same_time(
    application: Application, kind: str
) -> None:
    """Otherwise the next place of the same path would run the hooks of somebody who may have no right there."""
    source = {"kind": "local", "path": "/srv/sources/vpc"}
    body = {"path": "net"} | ({"source": source} if kind == "modules" else {})
    await application.admin.made(f"{API}/{kind}", body)
    find = step_settings.module if kind == "modules" else step_settings.group
    admin = Principal("user", "usr_x", "x", await application.scalar("SELECT id FROM organizations"), True)
    db = application.server.db
    found = await db.read(lambda tx: find(tx, admin, "net", Verb.TREE_WRITE))
    assert (await application.admin.delete(f"{API}/{kind}/net")).status_code == 204
    with pytest.raises(NotFound, match="just been deleted"):
        await db.write(lambda tx: step_settings.put(tx, admin, found, Step.PLAN, NewStepSettings(Hook(SCRIPT))))
    assert await application.scalar("SELECT count(*) FROM step_settings") == 0


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


@pytest.mark.feature("H1.scripts", "J6.inputs")
async def test_the_hooks_of_a_group_are_given_what_is_set_there_or_above_and_nothing_from_below(
    runner: SimulatedRunner,
) -> None:
    """A module skipped the policy hook of a group by a variable that it set for itself."""
    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    for place in ("/", "platform", PLACE):
        await set_input(admin, place, "PLACE", place, target="environment")
    await set_input(admin, "platform/network", "BELOW", "of the lower group", target="environment")
    await set_input(admin, PLACE, "HOME", "evil", target="environment")
    await set_input(admin, "platform", "zone", "a variable of the configuration")
    defined = {"place": "platform", "name": "NUMBER", "target": "environment", "definition": "job_number"}
    assert (await admin.post(f"{API}/inputs", json=defined)).status_code == 200
    await put_secret(admin, "platform", "TOKEN", "hunter2-of-the-group", target="environment")
    await put_secret(admin, PLACE, "TOKEN", "hunter2-of-the-module", target="environment")
    root = await application.scalar("SELECT id FROM groups WHERE path = ''")
    await put(application, f"groups/{root}", "plan", before={"script": SCRIPT})
    await put(application, "groups/platform", "apply", after={"script": SCRIPT})
    await put(application, "groups/platform%2Fnetwork", "plan", flags={"tofu": ["-parallelism=5"]})
    await put(application, f"modules/{PLACE.replace('/', '%2F')}", "plan", before={"script": SCRIPT})
    spec, _ = await granted(runner, module_id, environment={"PLACE": "the job"})
    assert spec.environment["PLACE"] == "the job"
    of_group = {"PLACE": "platform", "TOKEN": "hunter2-of-the-group"}
    assert spec.hook_environments == [
        PlaceEnvironment("", {"PLACE": "/"}),
        PlaceEnvironment("platform", of_group, [DefinedInput("environment", "NUMBER", "job_number")]),
    ]
    assert {"hunter2-of-the-group", "hunter2-of-the-module"} <= set(spec.secrets), "both are masked"


async def test_a_plan_is_made_again_if_a_variable_of_a_hook_has_changed_since(runner: SimulatedRunner) -> None:
    """The hooks of the plan have looked at another value."""
    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    await put(application, "groups/platform", "plan", before={"script": SCRIPT})
    for place in ("platform", PLACE):
        await set_input(admin, place, "POLICY", place, target="environment")
    hashes: list[str] = []
    for value in ("strict", None, "stricter"):
        if value is not None:
            await set_input(admin, "platform", "POLICY", value, target="environment")
        _, made = await granted(runner, module_id)
        hashes.append(await application.scalar("SELECT inputs_sha256 FROM attempts WHERE job_id = :id", id=made["id"]))
        await runner.rows.take(delivery(AttemptRef(made["id"], 1), 1, RUNNING, DONE))
    assert hashes[0] == hashes[1] != hashes[2]
