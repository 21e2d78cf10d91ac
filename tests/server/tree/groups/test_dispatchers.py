"""What jobs ask of a dispatcher is set on groups and modules; of each field, the nearest place decides."""

from typing import Any

import pytest

from terracrew.api.place_settings import NOTHING_CHOSEN, PlaceChoice
from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.server.tree.groups.inheritance import effective, origins
from tests.server.application import Application

pytestmark = pytest.mark.feature("D1.asked")


def test_the_nearest_place_decides_about_each_field() -> None:
    places = [PlaceChoice("kubernetes", cpu=1.0), NOTHING_CHOSEN, PlaceChoice("docker", "team/a", 512)]
    assert effective(DispatcherChoice, places) == DispatcherChoice("kubernetes", "team/a", 512, 1.0)
    assert effective(DispatcherChoice, []) == NO_CHOICE


def test_a_place_can_leave_to_the_dispatcher_what_the_places_above_say() -> None:
    places = [PlaceChoice(cpu=1.0), PlaceChoice(memory_mb=256, inherits=False), PlaceChoice("docker", "team/a", 512)]
    assert effective(DispatcherChoice, places) == DispatcherChoice(memory_mb=256, cpu=1.0)
    named = list(zip(("net/eu/vpc", "net/eu", "net"), places, strict=True))
    assert origins(DispatcherChoice, named) == {"cpu": "net/eu/vpc", "memory_mb": "net/eu"}
    assert origins(DispatcherChoice, [("net/eu/vpc", PlaceChoice(inherits=False)), *named[1:]]) == {}


async def test_a_module_below_a_group_with_an_image_uses_that_of_the_dispatcher(application: Application) -> None:
    """`"image": null` removed only what the module said itself, so that the image of the group applied again."""
    admin = application.admin
    await admin.patch("/api/v1/groups/%2F", json={"dispatcher": {"name": "docker", "image": "team/a:1"}})
    new = {"path": "vpc", "source": {"kind": "git", "url": "https://example.com/vpc.git"}}
    await admin.made("/api/v1/modules", new | {"dispatcher": {"name": "docker", "inherits": False}})
    shown = (await admin.get("/api/v1/modules/vpc")).json()
    assert shown["dispatcher"] == {"name": "docker", "inherits": False}
    assert (shown["applying_dispatcher"], shown["dispatcher_from"]) == ({"name": "docker"}, {})
    job = await admin.made("/api/v1/modules/vpc/jobs", {"type": "PLAN"})
    assert job["dispatcher"] == {"name": "docker"}
    await admin.patch("/api/v1/modules/vpc", json={"dispatcher": {"inherits": True}})
    assert (await admin.get("/api/v1/modules/vpc")).json()["dispatcher_from"] == {"image": ""}


async def test_a_choice_is_set_changed_inherited_and_removed(application: Application) -> None:
    admin = application.admin
    await admin.patch("/api/v1/groups/%2F", json={"dispatcher": {"name": "docker"}})
    await admin.made("/api/v1/groups", {"path": "net", "dispatcher": {"image": "team/a:1", "memory_mb": 512}})
    new = {"path": "net/vpc", "source": {"kind": "git", "url": "https://example.com/vpc.git"}}
    made = await admin.made("/api/v1/modules", new | {"dispatcher": {"cpu": 1.5, "image": "team/b:1"}})
    assert made["dispatcher"] == {"cpu": 1.5, "image": "team/b:1"}
    job = await admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    assert job["dispatcher"] == {"name": "docker", "image": "team/b:1", "memory_mb": 512, "cpu": 1.5}
    shown = (await admin.get("/api/v1/modules/net%2Fvpc")).json()
    assert shown["applying_dispatcher"] == job["dispatcher"]
    assert shown["dispatcher_from"] == {"name": "", "memory_mb": "net"}, "the module has its own image"
    change = {"image": None, "service_account": "deploy"}
    changed = await admin.patch("/api/v1/modules/net%2Fvpc", json={"dispatcher": change})
    assert changed.json()["dispatcher"] == {"cpu": 1.5, "service_account": "deploy"}
    shown = (await admin.get(f"/api/v1/jobs/{job['id']}")).json()
    assert shown["dispatcher"] == job["dispatcher"], "a job keeps what applied when it was created"
    changed = await admin.patch("/api/v1/groups/net", json={"dispatcher": {"image": None, "memory_mb": None}})
    assert changed.json()["dispatcher"] == {}
    entries = (await admin.get("/api/v1/audit")).json()["items"]
    about = [each for each in entries if "dispatcher" in str(each.get("details"))]
    assert {each["action"] for each in about} >= {"group.update", "module.change"}, entries


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Not a name"},
        {"image": "registry.example/../x"},
        {"memory_mb": 1},
        {"cpu": 0},
        {"service_account": "a b"},
        {"privileged": True},
    ],
)
async def test_a_choice_that_is_wrong_is_refused_at_its_place(application: Application, wrong: dict[str, Any]) -> None:
    told = await application.admin.refused("PATCH", "/api/v1/groups/%2F", 400, json={"dispatcher": wrong})
    assert "dispatcher" in told


async def test_a_text_that_cannot_be_right_is_refused_in_words(application: Application) -> None:
    """Symptom: people read a regular expression."""
    for field, text, words in (
        ("image", "team/a b", "it is not the name of an image, such as `registry.example/terracrew-executor:1.0`"),
        ("name", "Docker", "it is not the name or the type of a dispatcher, such as `docker`"),
        ("service_account", " ", "it is not the name of a service account, such as `deploy-network`"),
    ):
        answer = await application.admin.patch("/api/v1/groups/%2F", json={"dispatcher": {field: text}})
        assert answer.status_code == 400, answer.text
        assert answer.json()["detail"] == f"dispatcher.{field}: {words}"
