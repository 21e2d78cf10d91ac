"""Roll-outs over HTTP: who may start, see and change them, and what each answer says."""

import pytest

from terracrew.server.principals.model import SYSTEM
from terracrew.server.releases import service as releases
from terracrew.server.rollouts import store
from terracrew.server.rollouts.loop import Rollouts
from tests.server.application import Application, Person
from tests.server.releases.release_rows import new_release, wheel
from tests.server.runners.connected import connect

pytestmark = pytest.mark.feature("V2.rollouts", "V2.outdated")
API = "/api/v1/rollouts"
OLD, NEW = "0.9.1", "0.9.2"


async def outdated(application: Application, path: str) -> str:
    """Make a self-hosted runner that updates itself and has an older version."""
    group, _, name = path.rpartition("/")
    runner = await application.admin.made("/api/v1/runners", {"name": name, "group": group})
    await connect(application, runner["id"], "one", version=OLD, is_self_updating=True)
    return runner["id"]


async def published(application: Application, version: str = NEW, *, is_breaking: bool = False) -> None:
    release = new_release(version, is_breaking=is_breaking, artifacts=[wheel(version)])
    await application.server.db.write(lambda tx: releases.publish(tx, SYSTEM, release))


async def waves(who: Person, **params: str) -> dict[str, int | None]:
    found = (await who.get(f"{API}/preview", params=params)).json()
    return {each["path"]: each["wave"] for each in found["runners"]}


async def test_the_owner_of_a_group_updates_its_runners_and_others_see_only_theirs(application: Application) -> None:
    admin = application.admin
    for path in ("team", "other"):
        await admin.made("/api/v1/groups", {"path": path})
        await outdated(application, f"{path}/a")
        await outdated(application, f"{path}/b")
    await published(application)
    owner, viewer = (
        await application.person("olga", "owner", "team"),
        await application.person("vera", "viewer", "team"),
    )
    boss, foreign = await application.person("bea", "owner"), await application.person("nora", "owner", "other")
    assert await waves(owner) == {"team/a": 0, "team/b": 1}
    assert await waves(viewer) == {}
    assert await waves(boss) == {"other/a": 0, "other/b": 1, "team/a": 1, "team/b": 2}
    assert await waves(boss, group="team") == {"team/a": 0, "team/b": 1}
    await viewer.refused("POST", API, 403, json={})
    made = await owner.made(API, {"version": NEW})
    assert [each["path"] for each in made["runners"]] == ["team/a", "team/b"]
    assert (made["started_by_name"], made["is_automatic"], made["is_changeable"]) == ("olga", False, True)
    place = f"{API}/{made['id']}"
    assert not (await viewer.get(place)).json()["is_changeable"]
    await viewer.refused("POST", f"{place}/stop", 403)
    await foreign.refused("GET", place, 404)
    await foreign.refused("POST", f"{place}/stop", 404)
    assert await foreign.listed(API) == []
    words = await foreign.refused("POST", API, 409, json={})
    assert "a roll-out with other runners of your organization is under way" in words
    assert "team" not in words
    assert (await owner.post(f"{place}/pause")).json()["status"] == "paused"
    assert (await boss.post(f"{place}/resume")).json()["status"] == "rolling"
    assert (await owner.post(f"{place}/stop")).json()["stop_reason"] == "olga stopped it"
    await owner.refused("POST", f"{place}/stop", 409)
    whole = await boss.made(API, {})
    part = (await owner.get(f"{API}/latest")).json()
    assert part["id"] == whole["id"]
    assert [each["path"] for each in part["runners"]] == ["team/a", "team/b"]
    assert part["counts"]["waiting"] == 2
    assert not part["is_changeable"]
    words = await owner.refused("POST", f"{API}/{whole['id']}/pause", 403)
    assert "only somebody who may change all runners" in words
    assert [each["id"] for each in await boss.listed(API, limit="1")] == [whole["id"], made["id"]]


async def test_the_reason_of_a_stop_does_not_name_what_the_reader_may_not_see(application: Application) -> None:
    for path in ("team", "other"):
        await application.admin.made("/api/v1/groups", {"path": path})
        await outdated(application, f"{path}/a")
    await published(application)
    made = await application.admin.made(API, {})
    db = application.server.db
    before = (await db.read(lambda tx: store.runners(tx, made["id"])))[0]
    assert before.path == "other/a"
    failed = before.to(type(before.status).FAILED, before.changed_at, words="`other/a` has no network")
    await db.write(lambda tx: store.save_runner(tx, before, failed))
    await Rollouts(db, application.server.rollout_rules).step()
    viewer, other = (
        await application.person("vera", "viewer", "team"),
        await application.person("olga", "owner", "other"),
    )
    shown = (await viewer.get(f"{API}/{made['id']}")).json()
    assert shown["status"] == "stopped"
    assert (shown["stop_reason"], shown["stop_runner_id"]) == (
        "a runner that you may not see could not be updated",
        None,
    )
    assert "other" not in str(shown)
    shown = (await other.get(f"{API}/{made['id']}")).json()
    assert (shown["stop_reason"], shown["stop_runner_id"]) == ("`other/a` has no network", before.runner_id)


async def test_one_runner_is_updated_or_the_answer_says_why_not(application: Application) -> None:
    admin = application.admin
    await outdated(application, "build")
    place = "/api/v1/runners/{}/update".format
    assert "no release was published yet" in await admin.refused("POST", place("build"), 409, json={})
    await published(application, NEW, is_breaking=True)
    await admin.refused("POST", place("build"), 404, json={"version": "9.9.9"})
    assert "stop the old one first" in await admin.refused("POST", place("build"), 409, json={})
    job = await admin.made(place("build"), {"accept_breaking": True})
    assert (job["type"], job["target_name"], job["spec"]["version"]) == ("UPDATE_WORKER", "build", NEW)
    assert "has not ended" in await admin.refused("POST", place("build"), 409, json={"accept_breaking": True})
    runner = await admin.made("/api/v1/runners", {"name": "new"})
    await connect(application, runner["id"], "one", version="1.0.0")
    words = await admin.refused("POST", place("new"), 409, json={"version": NEW})
    assert f"has 1.0.0, which is higher than {NEW}" in words
    viewer = await application.person("vera", "viewer")
    await viewer.refused("POST", place("build"), 403, json={})


async def test_a_preview_has_the_commands_for_runners_that_are_updated_by_hand(application: Application) -> None:
    admin = application.admin
    runner = await admin.made("/api/v1/runners", {"name": "pip"})
    installation = '{"kind": "pip", "place": "/opt/terracrew"}'
    await connect(application, runner["id"], "one", version=OLD, installation=installation)
    own = await admin.made("/api/v1/runners", {"name": "off"})
    await connect(application, own["id"], "one", version=OLD, is_connected=False, is_self_updating=True)
    await published(application)
    found = (await admin.get(f"{API}/preview")).json()
    by_hand = {each["path"]: (each["reason"], each["command"]) for each in found["runners"]}
    assert "/opt/terracrew/bin/python -m pip install --upgrade 'terracrew==0.9.2'" in by_hand["pip"][1]
    assert "offline" in by_hand["off"][0]
    words = await admin.refused("POST", API, 409, json={})
    assert "2 outdated runners are updated by hand" in words
