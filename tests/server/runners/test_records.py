"""The record of a runner is made, changed and removed only by those who may."""

from datetime import UTC, datetime
from typing import Any

import pytest

from terracrew.server.secrets.credentials import digest
from terracrew.settings import layers
from tests.server.application import Application, on_one
from tests.server.declarations import declared_runner


@pytest.mark.feature("R1.created", "R1.fields", "R1.unique", "R2.path", "R3.users", "R8.root")
async def test_a_runner_is_created_in_a_group_and_serves_it(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "spectre/spaceship"}, parents=True)
    body = {"name": "impatient", "group": "spectre/spaceship", "max_jobs": 7, "tags": ["gpu", "eu"]}
    made = await application.admin.made("/api/v1/runners", body)
    assert made["id"].startswith("rnr_")
    assert made["path"] == "spectre/spaceship/impatient"
    assert (made["group"], made["type"], made["region"], made["max_jobs"]) == (
        "spectre/spaceship",
        "self-hosted",
        None,
        7,
    )
    assert made["tags"] == ["eu", "gpu"]
    assert (made["is_disabled"], made["is_draining"], made["allow_multiple_instances"]) == (False, False, False)
    assert (made["status"], made["version"], made["last_seen_at"], made["instances"]) == ("OFFLINE", None, None, [])
    assert made["is_assigned_to_all_modules"] is True
    assert abs((datetime.now(UTC) - datetime.fromisoformat(made["created_at"])).total_seconds()) < 60
    assert (await application.admin.get("/api/v1/runners/spectre%2Fspaceship%2Fimpatient")).json() == made
    whole = await application.admin.made("/api/v1/runners", {"name": "root"})
    assert (whole["path"], whole["group"]) == ("root", "")
    words = await application.admin.refused("POST", "/api/v1/runners", 409, json=body)
    assert "a runner `spectre/spaceship/impatient` already" in words


@on_one
@pytest.mark.feature("R1.fields")
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "Big", "use lowercase letters"),
        ("name", "a/b", "use lowercase letters"),
        ("name", "", "missing"),
        ("max_jobs", 0, "`int` >= 1"),
        ("max_jobs", "5", "Expected `int`, got `str`"),
        ("max_jobs", True, "Expected `int`, got `bool`"),
        ("tags", ["a b"], "tags[0]: it is not a tag of up to 63 letters"),
        ("tags", ["a\n"], "tags[0]: it is not a tag of up to 63 letters"),
        ("tags", "gpu", "Expected `array`"),
        ("region", "eu", "unknown field `region`"),
        ("service_account", "sac_" + "0" * 32, "no service account"),
    ],
)
async def test_what_is_no_runner_is_refused_in_words(
    application: Application, field: str, value: Any, words: str
) -> None:
    assert words in await application.admin.refused("POST", "/api/v1/runners", 400, json={"name": "r", field: value})
    assert await application.scalar("SELECT count(*) FROM runners") == 0


@pytest.mark.feature("R5.paste", "R5.token")
async def test_registering_gives_a_token_once_and_all_that_a_runner_needs(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await application.admin.made("/api/v1/runners/register", {"name": "home"})
    token = made["worker_token"]
    assert made["worker_id"] == made["id"] == made["runner"]["id"]
    assert token.startswith("tcw_")
    assert len(token) == 47
    assert made["command"] == "terracrew runner start"
    stored = await application.scalar("SELECT worker_token_sha256 FROM runners WHERE id = :id", id=made["id"])
    assert stored == digest(token)
    ends_at = datetime.fromisoformat(made["runner"]["worker_token_expires_at"])
    assert abs((ends_at - datetime.now(UTC)).total_seconds() - 90 * 24 * 3600) < 600
    audited = await application.server.db.read(lambda tx: tx.all("SELECT details FROM audit"))
    assert not any(token in row["details"] for row in audited)
    assert token not in (await application.admin.get("/api/v1/runners")).text
    # The runner's own settings understand what was printed.
    for name, value in made["environment"].items():
        monkeypatch.setenv(name, value)
    config = layers.load(None, {})
    assert (config.server_url, config.runner_id, config.instance) == ("http://127.0.0.1:7400", made["id"], "home")
    assert (config.client_id, config.client_secret) == (f"{application.server.organization_id}:{made['id']}", token)


@on_one
@pytest.mark.feature("R4.names", "R5.paste")
async def test_each_process_of_a_fleet_is_started_with_a_name_of_its_own(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners/register", {"name": "fleet", "allow_multiple_instances": True})
    assert made["command"] == 'terracrew runner start --instance "$(hostname)"'
    assert "TERRACREW_RUNNER__INSTANCE" not in made["environment"]


@pytest.mark.feature("R5.replace")
async def test_a_lost_token_is_replaced_by_registering_again(application: Application) -> None:
    first = await application.admin.made("/api/v1/runners/register", {"name": "home", "max_jobs": 3})
    words = await application.admin.refused("POST", "/api/v1/runners/register", 409, json={"name": "home"})
    assert "`replace` registers it anew" in words
    with application.server.db.listen("access") as woken:
        second = await application.admin.made("/api/v1/runners/register", {"name": "home", "replace": True})
        assert ("access", first["id"]) in await woken.get(5)
    assert second["id"] == first["id"]
    assert second["worker_token"] != first["worker_token"]
    assert second["runner"]["max_jobs"] == 3
    stored = await application.scalar("SELECT worker_token_sha256 FROM runners WHERE id = :id", id=first["id"])
    assert stored == digest(second["worker_token"])


@pytest.mark.feature("R5.replace")
async def test_an_existing_runner_is_registered_again_by_its_path(application: Application) -> None:
    first = await application.admin.made("/api/v1/runners/register", {"name": "home", "max_jobs": 3, "tags": ["gpu"]})
    with application.server.db.listen("access") as woken:
        answer = await application.admin.post("/api/v1/runners/home/reregister")
        assert ("access", first["id"]) in await woken.get(5)
    second = answer.json()
    assert (answer.status_code, second["id"], second["command"]) == (200, first["id"], "terracrew runner start")
    assert second["environment"].keys() == first["environment"].keys()
    for made in (first, second):
        del made["runner"]["worker_token_expires_at"]
    assert second["runner"] == first["runner"], "nothing but the token changes"
    stored = await application.scalar("SELECT worker_token_sha256 FROM runners WHERE id = :id", id=first["id"])
    assert stored == digest(second["worker_token"]) != digest(first["worker_token"])
    entries = await application.admin.listed("/api/v1/audit", target=first["id"])
    assert [each["action"] for each in entries].count("runner.replace_token") == 1
    assert not any(second["worker_token"] in str(each) for each in entries)
    for role, status in (("viewer", 403), ("operator", 403), ("approver", 403)):
        person = await application.person(role, role)
        await person.refused("POST", "/api/v1/runners/home/reregister", status)
    stranger = await application.person("mallory", "owner", "", "other")
    await stranger.refused("POST", f"/api/v1/runners/{first['id']}/reregister", 404)
    await application.admin.refused("POST", "/api/v1/runners/none/reregister", 404)


@pytest.mark.feature("R6.place")
async def test_a_service_account_is_named_by_its_path_where_the_caller_may_see_it(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    accounts = {
        group: (await application.admin.made("/api/v1/service-accounts", {"name": "ci", "group": group}))["id"]
        for group in ("", "a", "a/b")
    }
    await application.admin.made("/api/v1/runners", {"name": "r", "group": "a/b"})
    address = "/api/v1/runners/a%2Fb%2Fr"
    for path, group in (("ci", ""), ("a/ci", "a"), ("a/b/ci", "a/b")):
        changed = (await application.admin.patch(address, json={"service_account": path})).json()
        assert changed["service_account_id"] == accounts[group]
    owner = await application.person("olga", "owner", "a/b")
    assert (await owner.patch(address, json={"service_account": "a/b/ci"})).status_code == 200
    # Whether there is an account of that name above is not for the owner of a group below to find out.
    for wrong in ("a/ci", "a/none", "ci"):
        words = await owner.refused("PATCH", address, 400, json={"service_account": wrong})
        assert words == f"service_account: there is no service account {wrong}, or you may not see it"
    await application.admin.refused("PATCH", address, 400, json={"service_account": "a/../ci"})
    assert (await owner.patch(address, json={"service_account": None})).json()["service_account_id"] is None


@pytest.mark.feature("R6.place")
async def test_a_service_account_serves_runners_of_its_group_and_below(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    await application.admin.made("/api/v1/groups", {"path": "c"})

    root, own, below, beside = [
        (await application.admin.made("/api/v1/service-accounts", {"name": "ci", "group": group}))["id"]
        for group in ("", "a", "a/b", "c")
    ]
    runner = await application.admin.made("/api/v1/runners", {"name": "r", "group": "a", "service_account": own})
    assert runner["service_account_id"] == own
    address = f"/api/v1/runners/{runner['id']}"
    assert (await application.admin.patch(address, json={"service_account": root})).json()["service_account_id"] == root
    for wrong in (below, beside):
        words = await application.admin.refused("PATCH", address, 400, json={"service_account": wrong})
        assert "neither `a` nor above it" in words
    owner = await application.person("olga", "owner", "a")
    # The path of an account elsewhere is not for the owner of this group to learn, even if they know its id.
    words = await owner.refused("PATCH", address, 400, json={"service_account": beside})
    assert words == f"service_account: there is no service account {beside}, or you may not see it"
    assert (await owner.patch(address, json={"service_account": root})).status_code == 200
    assert (await application.admin.patch(address, json={"service_account": None})).json()["service_account_id"] is None


@pytest.mark.feature("R7.update")
async def test_a_runner_is_changed_disabled_enabled_and_drained(application: Application) -> None:
    made = await application.admin.made("/api/v1/runners", {"name": "r"})
    address = f"/api/v1/runners/{made['id']}"
    with application.server.db.listen("runners", "assignments") as woken:
        changed = (await application.admin.patch(address, json={"is_disabled": True, "max_jobs": 2})).json()
        assert changed == {**made, "is_disabled": True, "max_jobs": 2}
        assert await woken.get(5) >= {("runners", made["id"]), ("assignments", made["id"])}
    assert (await application.admin.patch(address, json={"is_disabled": False})).json()["is_disabled"] is False
    assert (await application.admin.post(f"{address}/drain", json={"on": True})).json()["is_draining"] is True
    assert (await application.admin.post(f"{address}/drain", json={"on": False})).json()["is_draining"] is False
    await application.admin.refused("PATCH", address, 400, json={"name": "another"})


@pytest.mark.feature("R1.fields", "R7.update", "S1.inside")
async def test_the_assignment_to_the_whole_group_is_a_field_of_the_runner(application: Application) -> None:
    """A change of `is_assigned_to_all_modules` was refused as an unknown field."""
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "a"})
    address = "/api/v1/runners/a%2Fr"
    await application.admin.made(f"{address}/assignments", {"place": "a/b"})

    async def change(is_assigned: bool) -> tuple[bool, list[str]]:
        answer = await application.admin.patch(address, json={"is_assigned_to_all_modules": is_assigned})
        assert answer.status_code == 200, answer.text
        places = (await application.admin.get(f"{address}/assignments")).json()["items"]
        return answer.json()["is_assigned_to_all_modules"], [each["path"] for each in places]

    for _ in range(2):
        assert await change(False) == (False, ["a/b"])
    with application.server.db.listen("assignments") as woken:
        assert await change(True) == (True, ["a", "a/b"])
        assert ("assignments", made["id"]) in await woken.get(5)
    actions = [each["action"] for each in await application.admin.listed("/api/v1/audit", target=made["id"])]
    assert (actions.count("runner.withdraw"), actions.count("runner.change")) == (1, 0)
    await declared_runner(application.server.db, "shared")
    shared = "/api/v1/runners/shared"
    words = await application.admin.refused("PATCH", shared, 409, json={"is_assigned_to_all_modules": False})
    assert "serves every module" in words
    assert (await application.admin.patch(shared, json={"is_assigned_to_all_modules": True})).status_code == 200


@pytest.mark.feature("R3.account", "R3.refused", "R8.shared")
async def test_a_shared_runner_comes_from_the_configuration_and_is_changed_by_administrators_only(
    application: Application,
) -> None:
    runner, _ = await declared_runner(application.server.db, "built-in")
    owner = await application.person("olga", "owner")
    seen = (await owner.get("/api/v1/runners/built-in")).json()
    assert (seen["group"], seen["organization_id"], seen["is_assigned_to_all_modules"]) == (None, None, True)
    assert [each["id"] for each in (await owner.get("/api/v1/runners")).json()["items"]] == [runner.id]
    foreigner = await application.person("mallory", "owner", "", "other")
    assert (await foreigner.get("/api/v1/runners/built-in")).status_code == 200
    for person in (owner, foreigner):
        await person.refused("PATCH", "/api/v1/runners/built-in", 403, json={"is_disabled": True})
        await person.refused("DELETE", "/api/v1/runners/built-in", 403)
        await person.refused("POST", "/api/v1/runners/built-in/assignments", 403, json={"place": ""})
    assert (await application.admin.patch("/api/v1/runners/built-in", json={"is_disabled": True})).json()[
        "is_disabled"
    ] is True
    words = await application.admin.refused(
        "PATCH", "/api/v1/runners/built-in", 409, json={"service_account": "sac_" + "0" * 32}
    )
    assert "takes no service account" in words
    words = await application.admin.refused("POST", "/api/v1/runners/built-in/assignments", 409, json={"place": ""})
    assert "serves every module" in words


@pytest.mark.feature("X3.roles")
async def test_who_may_see_a_runner_and_who_may_change_it(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    made = await application.admin.made("/api/v1/runners", {"name": "r", "group": "a"})
    viewer = await application.person("vera", "viewer", "a")
    assert (await viewer.get("/api/v1/runners/a%2Fr")).json() == made
    await viewer.refused("PATCH", "/api/v1/runners/a%2Fr", 403, json={"max_jobs": 1})
    await viewer.refused("DELETE", "/api/v1/runners/a%2Fr", 403)
    await viewer.refused("POST", "/api/v1/runners/register", 403, json={"name": "mine", "group": "a"})
    await viewer.refused("POST", "/api/v1/runners/register", 403, json={"name": "r", "group": "a", "replace": True})
    await viewer.refused("POST", "/api/v1/runners/a%2Fr/assignments", 403, json={"place": "a"})
    nobody = await application.person("nora")
    await nobody.refused("GET", "/api/v1/runners/a%2Fr", 404)
    other = await application.person("mallory", "owner", "", "other")
    for person in (nobody, other):
        assert (await person.get("/api/v1/runners")).json()["items"] == []
        await person.refused("GET", f"/api/v1/runners/{made['id']}", 404)
        await person.refused("DELETE", f"/api/v1/runners/{made['id']}", 404, params={"force": True})
    assert (await application.admin.get("/api/v1/runners/a%2Fr")).json() == made
