"""Which inputs apply to a module: those of the nearest place, with who set them."""

from typing import Any

import pytest

from tests.builders.deliveries import DONE, RUNNING
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import granted, put, tree, tree_again


@pytest.mark.feature("J6.inputs")
async def test_the_nearest_place_decides_and_a_job_decides_before_all(runner: SimulatedRunner) -> None:
    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    for place in ("/", "platform", "platform/network", "platform/network/vpc"):
        await put(admin, place, "place", place)
        await put(admin, place, "PLACE", place, target="environment")
    await put(admin, "/", "root", {"zones": ["a", 1, True, None, 0.5]})
    await put(admin, "platform", "middle", 7)
    spec, _ = await granted(runner, module_id)
    assert spec.inputs == {"place": "platform/network/vpc", "root": {"zones": ["a", 1, True, None, 0.5]}, "middle": 7}
    assert spec.environment == {"PLACE": "platform/network/vpc"}
    own = {"inputs": {"place": "the job"}, "environment": {"PLACE": "the job's own"}}
    spec, made = await granted(runner, (await tree_again(application, "b"))["id"], **own)
    assert (spec.inputs["place"], spec.environment["PLACE"]) == ("the job", "the job's own")
    used = (await admin.get(f"/api/v1/jobs/{made['id']}/inputs")).json()
    assert {each["name"]: (each["place_kind"], each["path"]) for each in used["items"]} == {
        "root": ("organization", ""),
        "middle": ("group", "platform"),
        "place": ("job", ""),
        "PLACE": ("job", ""),
    }


@pytest.mark.feature("J6.inputs")
async def test_the_list_says_where_each_input_is_set_by_whom_and_what_it_overrides(application: Application) -> None:
    await tree(application)
    olga = await application.person("olga", "owner", "platform")
    await put(application.admin, "/", "region", "eu-1")
    await put(olga, "platform", "region", "eu-2")
    await put(olga, "platform", "region", "eu-3")
    await put(olga, "platform/network/vpc", "size", 3)
    found = {each["name"]: each for each in await olga.listed("/api/v1/inputs", place="platform/network/vpc")}
    region = found["region"]
    assert (region["value"], region["path"], region["place_kind"]) == ("eu-3", "platform", "group")
    assert (region["set_by_name"], region["version"], region["is_inherited"]) == ("olga", 2, True)
    assert region["overrides"] == ""
    assert found["size"]["is_inherited"] is False
    own = await olga.listed("/api/v1/inputs", place="platform/network/vpc", inherited=False)
    assert [each["name"] for each in own] == ["size"]
    one = (await olga.get("/api/v1/inputs", params={"place": "platform/network/vpc", "limit": 1})).json()
    assert len(one["items"]) == 1
    assert one["next"]
    assert len(await olga.listed("/api/v1/inputs", place="platform/network/vpc", limit=1)) == 2
    # The inputs of the module itself are those that its own API shows and replaces.
    assert (await olga.get("/api/v1/modules/platform%2Fnetwork%2Fvpc")).json()["inputs"] == {"size": 3}
    await olga.patch("/api/v1/modules/platform%2Fnetwork%2Fvpc", json={"inputs": {"size": 3, "name": "x"}})
    found = {each["name"]: each for each in await olga.listed("/api/v1/inputs", place="platform/network/vpc")}
    assert (found["size"]["version"], found["name"]["version"]) == (1, 1)


@pytest.mark.feature("J6.inputs")
async def test_what_is_removed_uncovers_what_is_set_above(application: Application) -> None:
    await tree(application)
    admin, place = application.admin, "platform/network/vpc"
    await put(admin, "/", "region", "above")
    await put(admin, place, "region", "own")
    answer = await admin.delete("/api/v1/inputs", params={"place": place, "name": "region"})
    assert answer.status_code == 204, answer.text
    [left] = await admin.listed("/api/v1/inputs", place=place)
    assert (left["value"], left["place_kind"]) == ("above", "organization")
    await admin.refused("DELETE", "/api/v1/inputs", 400, params={"place": place, "name": "a\0b"})
    words = await admin.refused("DELETE", "/api/v1/inputs", 404, params={"place": place, "name": "region"})
    assert "has no variable `region` of its own" in words


@pytest.mark.feature("J6.inputs", "J8.same")
async def test_a_plan_that_waited_is_made_again_if_an_input_from_above_has_changed(runner: SimulatedRunner) -> None:
    """Only the module's own inputs counted, so a plan that was made with another value of the group was applied."""
    module_id = await tree(runner.app)
    made = await runner.app.admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "PLAN"})
    first = await runner.again(made["id"])
    hashes = "SELECT inputs_sha256 FROM attempts WHERE job_id = :id"
    before = await runner.app.scalar(hashes, id=first.ref.job_id)
    await first.deliver(RUNNING, DONE)
    await put(runner.app.admin, "platform", "region", "eu-1")
    _, second = await granted(runner, module_id)
    assert await runner.app.scalar(hashes, id=second["id"]) != before


@pytest.mark.feature("J6.inputs", "X3.roles")
async def test_who_may_set_and_see_inputs(application: Application) -> None:
    await tree(application)
    viewer = await application.person("vera", "viewer", "platform")
    operator = await application.person("oleg", "operator", "platform")
    owner = await application.person("olga", "owner", "platform/network")
    stranger = await application.person("sam")
    await put(application.admin, "platform", "TOKENLESS", "a value of the environment", target="environment")
    for person in (viewer, operator):
        found = await person.listed("/api/v1/inputs", place="platform")
        assert [(each["value"], each["is_hidden"]) for each in found] == [("a value of the environment", False)]
        body = {"place": "platform", "name": "a", "value": 1}
        assert "change groups and modules" in await person.refused("POST", "/api/v1/inputs", 403, json=body)
        await person.refused(
            "DELETE", "/api/v1/inputs", 403, params={"place": "platform", "name": "TOKENLESS", "target": "environment"}
        )
    for place in ("platform", "/"):
        await owner.refused(
            "POST", "/api/v1/inputs", 403 if place == "/" else 404, json={"place": place, "name": "a", "value": 1}
        )
    await put(owner, "platform/network", "a", 1)
    for place in ("platform", "platform/network/vpc", "nothing"):
        await stranger.refused("GET", "/api/v1/inputs", 404, params={"place": place})
        await stranger.refused("POST", "/api/v1/inputs", 404, json={"place": place, "name": "a", "value": 1})


@on_one
@pytest.mark.feature("J6.inputs")
async def test_only_those_who_may_change_a_module_give_a_job_inputs_of_its_own(application: Application) -> None:
    await tree(application)
    operator = await application.person("oleg", "operator", "platform")
    path = "/api/v1/modules/platform%2Fnetwork%2Fvpc/jobs"
    for own in ({"inputs": {"a": 1}}, {"environment": {"A": "1"}}):
        assert "change groups and modules" in await operator.refused("POST", path, 403, json={"type": "PLAN", **own})
    made = await application.admin.made(path, {"type": "PLAN", "inputs": {"a": 1}})
    await operator.refused("POST", f"/api/v1/jobs/{made['id']}/rerun", 403)
    again = await application.admin.made(f"/api/v1/jobs/{made['id']}/rerun", {})
    assert await application.scalar("SELECT count(*) FROM job_inputs WHERE job_id = :id", id=again["id"]) == 1


@on_one
@pytest.mark.feature("J6.inputs")
async def test_an_idempotency_key_stands_for_one_set_of_inputs(application: Application) -> None:
    await tree(application)
    path, headers = "/api/v1/modules/platform%2Fnetwork%2Fvpc/jobs", {"Idempotency-Key": "once"}
    first = await application.admin.post(path, json={"type": "PLAN", "inputs": {"a": 1}}, headers=headers)
    same = await application.admin.post(path, json={"type": "PLAN", "inputs": {"a": 1}}, headers=headers)
    assert (first.status_code, same.status_code) == (201, 200)
    await application.admin.refused("POST", path, 409, json={"type": "PLAN", "inputs": {"a": 2}}, headers=headers)
    await application.admin.refused("POST", path, 409, json={"type": "PLAN"}, headers=headers)


@on_one
@pytest.mark.feature("J6.inputs")
@pytest.mark.parametrize(
    "bad",
    [
        {"name": "1a", "value": 1},
        {"name": "a b", "value": 1},
        {"name": "", "value": 1},
        {"name": "x" * 300, "value": 1},
        {"name": "TERRACREW_A", "value": "1", "target": "environment"},
        {"name": "TF_HTTP_PASSWORD", "secret": "long enough", "target": "environment"},
        {"name": "A-B", "value": "1", "target": "environment"},
        {"name": "A", "value": 1, "target": "environment"},
        {"name": "A", "value": "a\0b", "target": "environment"},
        {"name": "a"},
        {"name": "a", "value": 1, "secret": "long enough"},
        {"name": "a", "secret": "short"},
        {"name": "a", "secret": "x" * 70_000},
        {"name": "a", "value": "x" * 300_000},
        {"name": "a", "value": 1, "target": "elsewhere"},
        {"name": "a", "value": 1, "other": 2},
        {"name": "password", "value": "***"},
        {"name": "ANYTHING", "value": "***", "target": "environment"},
        {"name": "a", "value": 1, "place": "../etc"},
    ],
)
async def test_bad_inputs_are_refused(application: Application, bad: dict[str, Any]) -> None:
    answer = await application.admin.post("/api/v1/inputs", json=bad)
    assert answer.status_code in (400, 413), answer.text
    assert await application.scalar("SELECT count(*) FROM inputs") == 0


@on_one
@pytest.mark.feature("J6.inputs")
async def test_a_place_has_a_bounded_number_of_inputs_and_versions(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terracrew.server.tree.inputs.checks.MAX_INPUTS", 3)
    for name in ("a", "b", "c"):
        await put(application.admin, "/", name, 1)
    await application.admin.refused("POST", "/api/v1/inputs", 413, json={"name": "d", "value": 1})
    for number in range(15):
        await put(application.admin, "/", "a", number)
    assert await application.scalar("SELECT count(*) FROM inputs WHERE name = 'a'") == 10
    await put(application.admin, "/", "a", 14)  # nothing changes, so there is no new version
    assert await application.scalar("SELECT max(version) FROM inputs WHERE name = 'a'") == 16


@pytest.mark.feature("J6.inputs")
async def test_the_inputs_of_what_is_deleted_are_deleted(application: Application) -> None:
    await tree(application)
    await put(application.admin, "platform/network/vpc", "a", 1)
    await put(application.admin, "platform/network", "b", 1)
    assert (await application.admin.delete("/api/v1/modules/platform%2Fnetwork%2Fvpc")).status_code == 204
    assert (await application.admin.delete("/api/v1/groups/platform%2Fnetwork")).status_code == 204
    assert await application.scalar("SELECT count(*) FROM inputs") == 0


@pytest.mark.feature("J6.inputs")
async def test_inputs_that_are_too_large_together_fail_the_job_before_anything_runs(
    runner: SimulatedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant has a bounded size: a runner could not have read a larger one, and would have been offered the job for ever."""
    monkeypatch.setattr("terracrew.server.jobs.job_inputs.MAX_GIVEN_BYTES", 20)
    module_id = await tree(runner.app)
    await put(runner.app.admin, "/", "a", "x" * 15)
    await put(runner.app.admin, "platform", "b", "x" * 15)
    made = await runner.app.admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "PLAN"})
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await runner.app.admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert found["status"] == "FAILED"
    assert "have 34 bytes together" in found["message"]
