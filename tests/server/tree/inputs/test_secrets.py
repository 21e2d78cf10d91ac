"""Secrets are set at a place, reach the engine, and are shown to nobody."""

from typing import Any

import pytest

from terracrew.errors import Undecryptable
from terracrew.server.tree.inputs import reads, sealing
from terracrew.server.tree.inputs.model import PlacedInput
from tests.builders.job_rows import change_inputs
from tests.server.application import Application
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import PLACE, SECRET, granted, put, put_secret, tree


@pytest.mark.feature("J6.secrets")
async def test_a_secret_reaches_the_engine_and_is_shown_to_nobody(runner: SimulatedRunner) -> None:
    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    made = await put_secret(admin, "platform", "innocent")
    assert (made["kind"], made["value"], made["is_hidden"]) == ("secret", None, True)
    await put_secret(admin, "platform", "INNOCENT", target="environment")
    spec, job = await granted(runner, module_id)
    assert spec.inputs == {"innocent": SECRET}
    assert spec.environment == {"INNOCENT": SECRET}
    assert spec.secrets == [SECRET, SECRET]
    assert SECRET not in repr(spec)
    viewer = await application.person("vera", "viewer")
    for person in (viewer, admin):
        for path in (
            f"/api/v1/inputs?place={PLACE}",
            "/api/v1/inputs?place=platform",
            f"/api/v1/jobs/{job['id']}/inputs",
            f"/api/v1/jobs/{job['id']}",
            f"/api/v1/modules/{module_id}",
            f"/dashboard/modules/{module_id}",
        ):
            answer = await person.get(path)
            assert answer.status_code == 200, path
            assert SECRET not in answer.text, path
    rows = await application.server.db.read(lambda tx: tx.all("SELECT * FROM inputs"))
    used = await application.server.db.read(lambda tx: tx.all("SELECT * FROM attempt_inputs"))
    audit = (await admin.get("/api/v1/audit")).text
    assert SECRET not in repr([dict(row) for row in [*rows, *used]]) + audit
    assert "secret.set" in audit


@pytest.mark.feature("J5.registry", "J6.secrets")
async def test_the_token_for_a_registry_is_a_secret_of_a_group(runner: SimulatedRunner) -> None:
    module_id = await tree(runner.app)
    await put_secret(runner.app.admin, "platform", "TF_TOKEN_registry_example_com", target="environment")
    spec, _ = await granted(runner, module_id)
    assert spec.environment == {"TF_TOKEN_registry_example_com": SECRET}


@pytest.mark.feature("J6.secrets")
async def test_a_ciphertext_is_of_no_use_at_another_place_or_under_another_name(application: Application) -> None:
    module_id = await tree(application)
    await put_secret(application.admin, PLACE, "db")
    await put_secret(application.admin, "platform", "other")
    keys, db = application.server.keys, application.server.db

    async def found() -> dict[str, PlacedInput]:
        placed = (await db.read(lambda tx: reads.of_modules(tx, [module_id])))[module_id]
        return {each.name: each for each in placed}

    before = await found()
    assert sealing.opened(keys, before["db"]) == SECRET
    await change_inputs(db, before["other"].id, sealed=before["db"].sealed)
    with pytest.raises(Undecryptable):
        sealing.opened(keys, (await found())["other"])


@pytest.mark.feature("J6.secrets", "X3.roles")
async def test_to_set_a_secret_and_to_use_it_are_two_rights(runner: SimulatedRunner) -> None:
    application = runner.app
    await tree(application)
    operator = await application.person("oleg", "operator", "platform")
    owner = await application.person("olga", "owner", "platform")
    body = {"place": PLACE, "name": "db", "secret": SECRET}
    assert "set and remove secrets" in await operator.refused("POST", "/api/v1/inputs", 403, json=body)
    await put_secret(owner, PLACE, "db")
    assert "set and remove secrets" in await operator.refused("POST", "/api/v1/inputs", 403, json=body)
    await operator.refused("DELETE", "/api/v1/inputs", 403, params={"place": PLACE, "name": "db"})
    made = await operator.made("/api/v1/modules/platform%2Fnetwork%2Fvpc/jobs", {"type": "PLAN"})
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"db": SECRET}
    for verb, is_allowed in (("secret.use", True), ("secret.set", False)):
        answer = await operator.get("/api/v1/access/explain", params={"verb": verb, "path": PLACE})
        assert answer.json()["is_allowed"] is is_allowed


@pytest.mark.feature("J6.secrets")
async def test_a_job_with_secrets_needs_the_right_to_use_them(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every role that runs jobs includes the right today, so it is taken from the operator here."""
    from terracrew.api.access import Role
    from terracrew.server.principals import authorize
    from terracrew.server.principals.authorize import Verb

    await tree(application)
    operator = await application.person("oleg", "operator", "platform")
    rights = authorize.GRANTS[Role.OPERATOR] - {Verb.SECRET_USE}
    monkeypatch.setitem(authorize.GRANTS, Role.OPERATOR, rights)
    path = "/api/v1/modules/platform%2Fnetwork%2Fvpc/jobs"
    await operator.made(path, {"type": "PLAN"})
    await put_secret(application.admin, "/", "db")
    assert "run jobs that use secrets" in await operator.refused("POST", path, 403, json={"type": "PLAN"})


@pytest.mark.feature("J6.secrets")
async def test_a_job_whose_secret_was_removed_while_it_waited_fails_before_anything_runs(
    runner: SimulatedRunner,
) -> None:
    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    await put_secret(admin, "platform", "db")
    made = await admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "APPLY"})
    answer = await admin.delete("/api/v1/inputs", params={"place": "platform", "name": "db"})
    assert answer.status_code == 204
    assert await application.scalar("SELECT count(*) FROM inputs WHERE sealed IS NOT NULL") == 0, "a value is left"
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert found["status"] == "FAILED"
    assert found["message"].startswith("the secret db of `platform` was removed by admin after this job was queued")
    assert found["attempts"][0]["outcome"] == "failed"
    # A job that is queued now was never meant to get it, and one that is queued after it was set again gets it.
    spec, _ = await granted(runner, module_id)
    assert spec.inputs == {}


@pytest.mark.feature("J6.secrets")
async def test_a_secret_that_was_set_again_or_is_given_nearer_does_not_stop_a_waiting_job(
    runner: SimulatedRunner,
) -> None:
    admin, module_id = runner.app.admin, await tree(runner.app)
    await put_secret(admin, "platform", "db")
    made = await admin.made(f"/api/v1/modules/{module_id}/jobs", {"type": "PLAN"})
    await admin.delete("/api/v1/inputs", params={"place": "platform", "name": "db"})
    await put_secret(admin, "platform", "db", "another-secret")
    assert (await runner.instance.has(made["id"], 1)).spec.inputs == {"db": "another-secret"}


@pytest.mark.feature("J6.secrets")
async def test_a_job_that_replaces_one_removed_secret_still_fails_because_of_another(runner: SimulatedRunner) -> None:
    admin, module_id = runner.app.admin, await tree(runner.app)
    for name in ("a_db", "b_db"):
        await put_secret(admin, "platform", name)
    wanted = {"type": "PLAN", "inputs": {"a_db": "of the job"}}
    made = await admin.made(f"/api/v1/modules/{module_id}/jobs", wanted)
    for name in ("a_db", "b_db"):
        await admin.delete("/api/v1/inputs", params={"place": "platform", "name": name})
    assert await runner.instance.claim(made["id"], 1) is None
    found = (await admin.get(f"/api/v1/jobs/{made['id']}")).json()
    assert found["message"].startswith("the secret b_db of `platform` was removed")


@pytest.mark.feature("J6.secrets", "L5.server")
async def test_the_server_masks_secrets_also_in_the_version_that_a_running_job_has(runner: SimulatedRunner) -> None:
    from terracrew.server.jobs import job_inputs, service

    application, admin = runner.app, runner.app.admin
    module_id = await tree(application)
    await put_secret(admin, "/", "innocent")
    _, job = await granted(runner, module_id)
    await put_secret(admin, "/", "innocent", "rotated-since-then")
    found = await application.server.db.read(lambda tx: service.find(tx, admin.principal, job["id"], _read()))
    masked = await application.server.db.read(
        lambda tx: job_inputs.values_to_mask(tx, application.server.keys, [found])
    )
    assert {SECRET, "rotated-since-then"} <= set(masked[found.id])


def _read() -> Any:
    from terracrew.server.principals.authorize import Verb

    return Verb.JOB_READ


@pytest.mark.feature("J6.secrets")
async def test_a_literal_does_not_replace_a_secret_by_the_way(application: Application) -> None:
    await tree(application)
    await put_secret(application.admin, PLACE, "db")
    path = "/api/v1/modules/platform%2Fnetwork%2Fvpc"
    words = await application.admin.refused("PATCH", path, 409, json={"inputs": {"db": "in plain text"}})
    assert "db is set as a secret here" in words
    await application.admin.patch(path, json={"inputs": {"size": 1}})
    listed = {each["name"]: each["kind"] for each in await application.admin.listed("/api/v1/inputs", place=PLACE)}
    assert listed == {"db": "secret", "size": "literal"}
    await put(application.admin, PLACE, "db", "now a literal")
    assert (await application.admin.get(path)).json()["inputs"] == {"db": "now a literal", "size": 1}


@pytest.mark.feature("X1.runners")
async def test_a_static_key_of_a_cloud_has_a_warning(runner: SimulatedRunner) -> None:
    await tree(runner.app)
    admin = runner.app.admin
    made = await put_secret(admin, PLACE, "AWS_SECRET_ACCESS_KEY", "s3cret-s3cret", target="environment")
    assert "Jobs can log in to AWS as a role without any key" in made["warning"]
    plain = await put(admin, PLACE, "AWS_REGION", "eu-1", target="environment")
    assert plain["warning"] == ""
    listed = await admin.listed("/api/v1/inputs", place=PLACE)
    assert [bool(each["warning"]) for each in sorted(listed, key=lambda each: each["name"])] == [False, True]
