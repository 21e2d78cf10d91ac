"""The dispatcher of jobs on the pages of a group and a module."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("D1.asked", "U6.tree")
async def test_an_owner_sets_the_dispatcher_on_the_pages_of_a_group_and_of_a_module(application: Application) -> None:
    admin = application.admin
    group = await admin.made("/api/v1/groups", {"path": "net"})
    source = {"kind": "local", "path": "/srv/sources"}
    module = await admin.made("/api/v1/modules", {"path": "net/vpc", "source": source})
    someone = await logged_in(application)
    settings = f"/dashboard/groups/{group['id']}/settings"
    await someone.see(settings)
    answer = await someone.submit(
        f"{settings}/dispatcher", **{"dispatcher.name": "kubernetes", "dispatcher.memory_mb": "512"}
    )
    assert answer.status_code == 303, answer.text
    assert (await admin.get("/api/v1/groups/net")).json()["dispatcher"] == {"name": "kubernetes", "memory_mb": 512}
    assert 'value="kubernetes"' in await someone.see(settings), "the form shows what is set"
    assert "kubernetes, 512 MB of memory in this group" in await someone.see(f"/dashboard/groups/{group['id']}")
    settings = f"/dashboard/modules/{module['id']}/settings"
    assert "In net: kubernetes, 512 MB of memory" in await someone.see(settings), "the form names what is above"
    alone = {"dispatcher.inherits": "", "dispatcher.image": "", "dispatcher.cpu": ""}
    for wrong, words in (
        ({"dispatcher.name": "No Name"}, "This is not valid"),
        ({"dispatcher.memory_mb": "many"}, "Write a whole number."),
        ({"dispatcher.cpu": "nan"}, "Write a number of at least"),
    ):
        refused = await someone.submit(f"{settings}/dispatcher", **wrong)
        field = next(iter(wrong)).replace("_", "-").replace(".", "-")
        assert f'id="{field}-wrong" role="alert">{words}' in refused.text, refused.text
    assert (
        await someone.submit(f"{settings}/dispatcher", **{"dispatcher.image": "team/a:1", "dispatcher.cpu": "1.5"})
    ).status_code == 303
    page = await someone.see(f"/dashboard/modules/{module['id']}")
    assert "image team/a:1, 1.5 processors" in page
    assert "kubernetes, 512 MB of memory from" in page
    job = await admin.made("/api/v1/modules/net%2Fvpc/jobs", {"type": "PLAN"})
    words = "kubernetes, image team/a:1, 512 MB of memory, 1.5 processors"
    assert words in await someone.see(f"/dashboard/jobs/{job['id']}")
    assert (await someone.submit(f"{settings}/dispatcher", **alone)).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["applying_dispatcher"] == {}
    assert 'name="dispatcher.inherits" value="true" aria' in await someone.see(settings), "the box is not checked"
    page = await someone.see(f"/dashboard/modules/{module['id']}")
    assert "nothing of the groups above" in page
    assert "512 MB" not in page
    assert (await someone.submit(f"{settings}/dispatcher", **{"dispatcher.inherits": "true"})).status_code == 303
    assert (await admin.get("/api/v1/modules/net%2Fvpc")).json()["dispatcher"] == {}, "an empty field removes it"
