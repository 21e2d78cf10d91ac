"""Inputs on the pages of modules and groups: where they come from, and how they are set and removed."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.tree.inputs.places import SECRET, put, put_secret, tree


@pytest.mark.feature("J6.inputs", "J6.secrets", "U6.tree")
async def test_the_pages_show_where_inputs_come_from_and_no_secret(application: Application) -> None:
    module_id = await tree(application)
    await put(application.admin, "/", "region", "north-1")
    await put(application.admin, "platform", "region", "eu-<1>")
    await put(application.admin, "platform", "AWS_REGION", "eu-central-1", target="environment")
    await put(application.admin, "platform", "DB_TOKEN", "hunter2-in-the-environment", target="environment")
    await put(application.admin, "platform", "DB", "postgres://u:hunter2-too@db/x", target="environment")
    await put_secret(application.admin, "platform/network", "db")
    vera = await application.person("vera", "viewer", "platform")
    del vera
    for name in ("admin", "vera"):
        someone = await logged_in(application, name)
        page = await someone.see(f"/dashboard/modules/{module_id}")
        assert "eu-&lt;1&gt;" in page
        assert ">platform</a>" in page
        assert "set by admin" in page
        assert "overrides the one of" in page
        assert "•••" in page
        assert SECRET not in page
        assert ">eu-central-1<" in page, "a plain value was hidden like a secret, so that nobody could check it"
        assert "hunter2" not in page, "neither by its name nor inside an address"
        assert "postgres://u:***@db/x" in page
        assert ("Edit</a>" in page) == (name == "admin")
    group = await application.scalar("SELECT id FROM groups WHERE path = 'platform'")
    page = await someone.see(f"/dashboard/groups/{group}")
    assert "This group" in page
    assert ">db<" not in page
    await someone.see(f"/dashboard/inputs/{group}", 403)


@pytest.mark.feature("J6.inputs", "J6.secrets")
async def test_inputs_are_set_and_removed_on_their_page(application: Application) -> None:
    module_id = await tree(application)
    someone = await logged_in(application)
    here = f"/dashboard/inputs/{module_id}"
    await someone.see(here)
    page = (await someone.submit(here, name="zones", target="variable", kind="literal", value='["a", 1]')).text
    assert "[&#34;a&#34;,1]" in page
    page = (await someone.submit(here, name="k8s", target="variable", kind="literal", value="1.30")).text
    assert ">&#34;1.30&#34;<" in page
    await someone.submit(f"{here}/remove", name="k8s", target="variable")
    page = (await someone.submit(here, name="db", target="environment", kind="secret", value=SECRET)).text
    assert SECRET not in page
    assert ">secret<" in page
    refused = await someone.submit(here, name="db2", target="variable", kind="secret", value="short")
    assert refused.status_code == 200
    assert "it needs at least 6 characters" in refused.text
    assert 'value="db2"' in refused.text
    assert "short</textarea>" not in refused.text
    page = (await someone.submit(f"{here}/remove", name="zones", target="variable")).text
    assert "zones" not in page
    left = await application.admin.listed("/api/v1/inputs", place=module_id)
    assert [(each["name"], each["kind"]) for each in left] == [("db", "secret")]
    assert "has no variable" in (await someone.submit(f"{here}/remove", name="zones", target="variable")).text
    await someone.see("/dashboard/inputs/mod_00000000000000000000000000000000", 404)
