"""A module is created, changed and deleted within what its fields, its source and its history allow."""

from typing import Any

import pytest

from terracrew import plugins
from terracrew.server.retention.deletion import remove_deleted
from tests.builders.job_rows import change_instances, change_runners
from tests.server.application import Application, on_one
from tests.server.simulated_runner import SimulatedRunner

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}


@pytest.mark.feature("J5.archive", "J6.inputs")
async def test_a_module_is_created_shown_changed_and_deleted(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "net"})
    body = {
        "path": "net/vpc",
        "source": SOURCE,
        "inputs": {"cidr": "10.0.0.0/8", "zones": [1, 2], "deep": {"a": None}},
        "environment": {"AWS_REGION": "eu-central-1"},
        "description": "the network",
    }
    made = await application.admin.made("/api/v1/modules", body)
    assert made["id"].startswith("mod_")
    assert made["source"] == {**SOURCE, "subdirectory": ""}
    assert (made["engine"], made["backend"], made["state_version"]) == ("tofu", "terracrew", 0)
    assert made["inputs"] == body["inputs"]
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).json().items() >= made.items()
    change = {"inputs": {"cidr": "10.1.0.0/16"}, "engine": "tofu"}
    changed = await application.admin.patch(f"/api/v1/modules/{made['id']}", json=change)
    assert changed.json() == {**made, **change}
    assert (await application.admin.get("/api/v1/modules/net%2Fvpc")).json().items() >= changed.json().items()
    assert (await application.admin.delete("/api/v1/modules/net%2Fvpc")).status_code == 204
    await application.admin.refused("GET", "/api/v1/modules/net%2Fvpc", 404)


async def test_a_module_is_not_put_into_a_group_of_another_organization_by_its_id(application: Application) -> None:
    """Its code would get the secrets of that group. An id without its kind also reads as a path."""
    group = await application.admin.made("/api/v1/groups", {"path": "net"})
    owner = await application.person("olga", "owner", organization="other")
    source = {"kind": "git", "url": "https://git.example.com/a.git", "branch": "main"}
    body = {"path": f"{group['id'].removeprefix('grp_')}/vpc", "source": source}
    assert "there is no group" in await owner.refused("POST", "/api/v1/modules", 404, json=body)
    assert await application.admin.listed("/api/v1/modules") == []


@on_one
@pytest.mark.feature("J4.pulumi")
async def test_a_module_can_have_every_engine_of_terracrew(application: Application) -> None:
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
    for engine in plugins.names(plugins.ENGINES):
        changed = await application.admin.patch(f"/api/v1/modules/{made['id']}", json={"engine": engine})
        assert changed.json()["engine"] == engine


@on_one
@pytest.mark.feature("J4.version")
async def test_a_module_may_want_certain_versions_of_its_engine(application: Application) -> None:
    body = {"path": "m", "source": SOURCE, "engine_version": " ~> 1.12 "}
    made = await application.admin.made("/api/v1/modules", body)
    place = f"/api/v1/modules/{made['id']}"
    assert made["engine_version"] == "~> 1.12"
    for bad in ("latest", "1.x", ">= 1.5,", "1" * 300):
        words = await application.admin.refused("PATCH", place, 400, json={"engine_version": bad})
        assert "engine_version" in words
    assert (await application.admin.patch(place, json={"engine_version": ">= 1.5, < 2"})).json()["engine_version"]
    assert (await application.admin.patch(place, json={"engine_version": ""})).json()["engine_version"] == ""


@pytest.mark.feature("J4.missing")
@pytest.mark.parametrize(
    "said",
    [
        {"engines": {"cobol-2": "1"}},
        {"dispatchers": [{"engines": {"cobol-2": "1"}}]},
        {"installable_engines": ["cobol-2"]},
    ],
)
async def test_an_engine_of_another_package_can_be_named_once_a_runner_has_announced_it(
    runner: SimulatedRunner, said: dict[str, Any]
) -> None:
    """Every name was accepted, and the jobs of a misspelt one waited for ever."""
    db, nothing = runner.server.db, {"engines": {}, "dispatchers": [], "installable_engines": []}
    admin, body = runner.app.admin, {"path": "m", "source": SOURCE, "engine": "cobol-2"}
    words = await admin.refused("POST", "/api/v1/modules", 400, json=body)
    assert "no runner has ever had an engine 'cobol-2': there is pulumi, terraform, tofu." in words
    words = await admin.refused("POST", "/api/v1/modules", 400, json=body | {"engine": "terrafrom"})
    assert "did you mean terraform?" in words
    runner_id = await runner.app.scalar("SELECT runner_id FROM instances LIMIT 1")
    await change_instances(db, **nothing | said)
    organization = await runner.app.scalar("SELECT id FROM organizations LIMIT 1")
    await change_runners(db, runner_id, organization_id=organization)
    foreign = await runner.app.person("fred", "owner", organization="elsewhere")
    words = await foreign.refused("POST", "/api/v1/modules", 400, json=body)
    assert "no runner has ever had an engine 'cobol-2'" in words, "nobody learns what another organization has"
    made = await admin.made("/api/v1/modules", body)
    assert made["engine"] == "cobol-2"
    await runner.rows.run("DELETE FROM instance_engines")
    await change_instances(db, **nothing)
    place = f"/api/v1/modules/{made['id']}"
    kept = {"engine": "cobol-2", "description": "as it was"}
    assert (await admin.patch(place, json=kept)).status_code == 200, "what a module has already stays valid"
    assert "did you mean tofu?" in await admin.refused("PATCH", place, 400, json={"engine": "tofuu"})


@on_one
async def test_the_source_of_a_plug_in_travels_as_it_is_and_only_its_size_is_checked(application: Application) -> None:
    source = {"kind": "plugin", "plugin": "svn", "settings": {"url": "ssh://x", "depth": 1}, "subdirectory": ""}
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": source})
    assert made["source"] == source
    large = source | {"settings": {"url": "x" * 17_000}}
    words = await application.admin.refused("PATCH", f"/api/v1/modules/{made['id']}", 413, json={"source": large})
    assert "at most 16,384 are allowed" in words


async def test_values_of_inputs_stay_out_of_the_audit(application: Application) -> None:
    made = await application.admin.made(
        "/api/v1/modules", {"path": "m", "source": SOURCE, "inputs": {"password": "hunter2"}}
    )
    await application.admin.patch(f"/api/v1/modules/{made['id']}", json={"environment": {"TOKEN": "hunter2"}})
    rows = await application.server.db.read(
        lambda tx: tx.all("SELECT details FROM audit WHERE target_id = :id", id=made["id"])
    )
    assert len(rows) == 2
    assert not any("hunter2" in row["details"] for row in rows)


@on_one
@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("inputs", {"1a": 1}, "'1a' is not a valid name"),
        ("inputs", {"": 1}, "'' is not a valid name"),
        ("inputs", {"a\n": 1}, "is not a valid name"),
        ("inputs", [1], "Expected `object`"),
        ("environment", {"A-B": "x"}, "'A-B' is not a valid name"),
        ("environment", {"A": 1}, "Expected `str`, got `int`"),
        ("environment", {"A": "a\u0000b"}, "NUL"),
        ("environment", {"TERRACREW_ENDPOINT": "x"}, "set by Terracrew itself"),
        ("environment", {"TF_HTTP_ADDRESS": "http://evil"}, "set by Terracrew itself"),
        ("environment", {"TF_CLI_CONFIG_FILE": "x"}, "set by Terracrew itself"),
        ("environment", {"TF_DATA_DIR": "x"}, "set by Terracrew itself"),
        (
            "environment",
            {"TF_WORKSPACE": "prod"},
            "TF_WORKSPACE is `prod`, but Terracrew holds the state of this module",
        ),
        ("environment", {"TF_CLI_ARGS_apply": "-parallelism=2 -auto-approve"}, "`-auto-approve` cannot be added"),
        ("environment", {"TF_CLI_ARGS": "'-lock=false"}, "is not a list of arguments"),
        ("environment", {"TF_CLI_ARGS_plan": '-var=x=$(" ) -destroy ;"'}, "has the character $ outside of quotes"),
        ("engine", "", "length >= 1"),
        ("engine", "Tofu", "is not the name of an engine"),
        ("engine", "tofu\n", "is not the name of an engine"),
        ("engine", "a" * 33, "length <= 32"),
        ("backend", "s3", "'s3' is not one of own, terracrew"),
        ("runner_instance_name", "", "length >= 1"),
        ("tags", ["a b"], "tags"),
        ("tags", ["x" * 64], "tags"),
        ("tags", ["gpu\n"], "tags"),
        ("tags", [""], "tags"),
        ("tags", [f"t{number}" for number in range(51)], "length <= 50"),
        ("tags", "gpu", "Expected `array`"),
        ("priority", 101, "<= 100"),
        ("priority", -101, ">= -100"),
        ("priority", "high", "Expected `int`"),
        ("priority", None, "Expected `int`"),
        ("runner", "nobody", "no runner `nobody`"),
        ("description", "x" * 2001, "length <= 2000"),
        ("color", "red", "unknown field `color`"),
        ("path", "a/../b", "no meaning here"),
        (
            "source",
            {"kind": "svn", "url": "x"},
            "source.kind: 'svn' is not one of local, archive, plugin, git, registry",
        ),
        ("source", {"kind": "local"}, "missing required field `path`"),
        ("source", {"kind": "local", "path": "srv/sources"}, "should be absolute"),
        ("source", {"kind": "local", "path": "/srv/sources/../../etc"}, "should be absolute"),
        ("source", {"kind": "local", "path": "/etc"}, "not under one of the server's `local_roots` (/srv/sources)"),
        ("source", {"kind": "local", "path": "/srv/sources-other"}, "not under one of"),
        ("source", {**SOURCE, "subdirectory": "../x"}, "source.subdirectory"),
        ("source", {**SOURCE, "subdirectory": "/etc"}, "source.subdirectory"),
        ("source", {**SOURCE, "subdirectory": "a" * 1_001}, "source.subdirectory"),
        ("source", {**SOURCE, "subdirectory": "a\x1b[2J"}, "source.subdirectory"),
        ("source", {"kind": "archive", "archive_id": "arc_" + "0" * 32}, "upload it first"),
        ("source", {"kind": "archive", "archive_id": "../../etc"}, "is not an id"),
        ("source", {"kind": "plugin", "plugin": "Svn"}, "source.plugin: 'Svn' is not the name of a plug-in"),
        ("source", {"kind": "plugin", "plugin": "local"}, "is a kind of source of Terracrew itself"),
        ("source", {"kind": "plugin", "plugin": "svn", "settings": [1]}, "Expected `object`"),
        ("source", {"kind": "plugin", "plugin": "svn", "subdirectory": "../x"}, "source.subdirectory"),
    ],
)
async def test_what_a_module_cannot_hold_is_refused_in_words(
    application: Application, field: str, value: Any, words: str
) -> None:
    body = {"path": "m", "source": SOURCE, field: value}
    status = 404 if field == "runner" else 400
    assert words in await application.admin.refused("POST", "/api/v1/modules", status, json=body)
    assert await application.scalar("SELECT count(*) FROM modules") == 0
    if field != "path":
        made = await application.admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
        await application.admin.refused("PATCH", "/api/v1/modules/m", status, json={field: value})
        assert (await application.admin.get("/api/v1/modules/m")).json().items() >= made.items()


async def test_inputs_that_are_nested_without_end_are_refused(application: Application) -> None:
    body = b'{"path": "m", "source": {"kind": "local", "path": "/srv/sources"}, "inputs": {"a": ' + b"[" * 100_000
    words = await application.admin.refused(
        "POST", "/api/v1/modules", 400, content=body, headers={"Content-Type": "application/json"}
    )
    assert "not valid JSON" in words


async def test_inputs_have_a_largest_size(application: Application) -> None:
    body = {"path": "m", "source": SOURCE, "inputs": {"a": "x" * 256 * 1024}}
    assert "at most 262,144 are allowed" in await application.admin.refused("POST", "/api/v1/modules", 413, json=body)


@pytest.mark.feature("S4.instance", "S4.runner")
async def test_a_module_may_name_its_runner_and_one_instance_of_it(application: Application) -> None:
    runner = await application.admin.made("/api/v1/runners", {"name": "big"})
    body = {"path": "m", "source": SOURCE, "runner": "big", "runner_instance_name": "one"}
    made = await application.admin.made("/api/v1/modules", body)
    assert (made["runner_id"], made["runner_instance_name"]) == (runner["id"], "one")
    words = await application.admin.refused("DELETE", "/api/v1/runners/big", 409)
    assert "the only runner that m may use" in words
    freed = (await application.admin.patch("/api/v1/modules/m", json={"runner": None})).json()
    assert (freed["runner_id"], freed["runner_instance_name"]) == (None, "one"), "an instance may be named alone"
    freed = (await application.admin.patch("/api/v1/modules/m", json={"runner_instance_name": None})).json()
    assert (freed["runner_id"], freed["runner_instance_name"]) == (None, None)
    assert (await application.admin.delete("/api/v1/runners/big")).status_code == 200


async def test_a_module_has_tags_and_a_priority(application: Application) -> None:
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
    assert (made["tags"], made["priority"]) == ([], 0)
    changes = {"tags": ["zone:eu", "gpu", "gpu"], "priority": 7}
    changed = (await application.admin.patch("/api/v1/modules/m", json=changes)).json()
    assert (changed["tags"], changed["priority"]) == (["gpu", "zone:eu"], 7)
    shown = (await application.admin.get("/api/v1/modules/m")).json()
    assert (shown["tags"], shown["priority"]) == (["gpu", "zone:eu"], 7)
    await application.admin.patch("/api/v1/modules/m", json={"description": "other"})
    listed = (await application.admin.get("/api/v1/modules")).json()["items"][0]
    assert (listed["tags"], listed["priority"]) == (["gpu", "zone:eu"], 7)
    entry = (await application.admin.get("/api/v1/audit", params={"target": made["id"]})).json()["items"][1]
    assert (entry["action"], entry["details"]["changed"]) == ("module.change", ["priority", "tags"])
    operator = await application.person("otto", "operator")
    await operator.refused("PATCH", "/api/v1/modules/m", 403, json={"tags": []})


async def test_modules_are_listed_by_group(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a/b"}, parents=True)
    await application.admin.made("/api/v1/groups", {"path": "ab"})
    for path in ("m", "a/m", "a/b/m", "ab/m"):
        await application.admin.made("/api/v1/modules", {"path": path, "source": SOURCE})

    async def listed(**params: Any) -> set[str]:
        return {
            each["path"] for each in (await application.admin.get("/api/v1/modules", params=params)).json()["items"]
        }

    assert await listed() == {"m", "a/m", "a/b/m", "ab/m"}
    assert await listed(group="a") == {"a/m"}
    assert await listed(group="a", recursive=True) == {"a/m", "a/b/m"}
    assert await listed(group="") == {"m"}
    assert await listed(group="", recursive=True) == {"m", "a/m", "a/b/m", "ab/m"}


@pytest.mark.feature("X3.roles")
async def test_who_may_see_a_module_and_who_may_change_it(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    made = await application.admin.made("/api/v1/modules", {"path": "a/m", "source": SOURCE})
    viewer = await application.person("vera", "viewer", "a")
    [seen] = (await viewer.get("/api/v1/modules")).json()["items"]
    of_jobs = {"newest_job": None, "is_in_doubt": False}
    assert seen == {name: value for name, value in made.items() if name not in ("inputs", "environment")} | of_jobs
    await viewer.refused("PATCH", "/api/v1/modules/a%2Fm", 403, json={"description": "mine"})
    await viewer.refused("DELETE", "/api/v1/modules/a%2Fm", 403)
    await viewer.refused("POST", "/api/v1/modules", 403, json={"path": "a/n", "source": SOURCE})
    nobody = await application.person("nora")
    assert (await nobody.get("/api/v1/modules")).json()["items"] == []
    await nobody.refused("GET", "/api/v1/modules/a%2Fm", 404)
    other = await application.person("mallory", "owner", "", "other")
    for method, body in (("GET", None), ("PATCH", {"description": "mine"}), ("DELETE", None)):
        await other.refused(method, f"/api/v1/modules/{made['id']}", 404, json=body)
    assert (await application.admin.get("/api/v1/modules/a%2Fm")).json().items() >= made.items()


async def test_a_module_with_a_history_is_deleted_only_on_demand_and_never_while_a_job_is_unfinished(
    application: Application,
) -> None:
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
    job = await application.admin.made(f"/api/v1/modules/{made['id']}/jobs", {"type": "PLAN"})
    words = await application.admin.refused("DELETE", "/api/v1/modules/m", 409, params={"force": True})
    assert "1 unfinished jobs" in words
    assert (await application.admin.post(f"/api/v1/jobs/{job['id']}/cancel", json={"mode": "kill"})).is_success
    assert "ask for force=true" in await application.admin.refused("DELETE", "/api/v1/modules/m", 409)
    assert (await application.admin.delete("/api/v1/modules/m", params={"force": True})).status_code == 204
    await remove_deleted(application.server.db)
    assert await application.scalar("SELECT count(*) FROM jobs") == 0
