"""The page of a module shows what it depends on, its outputs, the resources of its state, and the versions of the state."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.company.contents import state
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("U5.page")


async def _hello(application: Application) -> str:
    return await application.scalar("SELECT id FROM modules WHERE path = 'hello'")


@pytest.mark.usefixtures("jobs")
async def test_a_module_shows_its_outputs_resources_versions_and_dependencies(application: Application) -> None:
    someone = await logged_in(application)
    path = f"/dashboard/modules/{await _hello(application)}"
    page = await someone.see(path)
    for words in (
        "10.0.3.7",
        "payments/prod/ledger",
        "platform/network/vpc-eu",
        "aws_db_instance.ledger",
        "db-LEDGER7QXK2",
        "module.backup",
        "Diff with 1",
        "4 in version 2",
    ):
        assert words in page, words
    assert "hush" not in page, "a sensitive output"
    found = await someone.see(f"{path}?q=WEEKLY")
    assert "6f2d-weekly" in found
    assert "db-LEDGER7QXK2" not in found
    fragment = {"HX-Request": "true"}
    key = page.partition("/contents?")[2].partition("known=")[2].partition('"')[0]
    assert (await someone.get(f"{path}/contents?known={key}", headers=fragment)).status_code == 204
    assert "6f2d-daily" in (await someone.get(f"{path}/contents", headers=fragment)).text
    assert (await someone.get(f"{path}/contents?q=x")).headers["location"] == f"{path}?q=x"


@pytest.mark.usefixtures("jobs")
async def test_somebody_who_may_not_read_the_state_sees_none_of_it(application: Application) -> None:
    await application.person("vera", "viewer")
    someone = await logged_in(application, "vera")
    page = await someone.see(f"/dashboard/modules/{await _hello(application)}")
    assert "10.0.3.7" in page
    assert "db-LEDGER7QXK2" not in page
    assert "State versions" not in page
    newest = await application.scalar("SELECT id FROM states WHERE version = 2")
    await someone.see(f"/dashboard/states/{newest}/diff", 403)


@pytest.mark.feature("J15.versions")
@pytest.mark.usefixtures("jobs")
async def test_two_versions_of_a_state_are_compared_without_passwords(application: Application) -> None:
    someone = await logged_in(application)
    newest = await application.scalar("SELECT id FROM states WHERE version = 2")
    page = await someone.see(f"/dashboard/states/{newest}/diff")
    assert "db.r6g.xlarge" in page
    assert "weekly" in page
    assert "hush" not in page
    found = (await application.admin.get(f"/api/v1/states/{newest}/diff")).json()
    assert found["counts"] == {"update": 1, "create": 1}
    [updated] = [each for each in found["items"] if each["action"] == "update"]
    assert [(each["name"], each.get("is_sensitive", False)) for each in updated["attributes"]] == [
        ("instance_class", False),
        ("password", True),
    ]
    oldest = await application.scalar("SELECT id FROM states WHERE version = 1")
    why = await application.admin.refused("GET", f"/api/v1/states/{oldest}/diff", 404)
    assert "there is no version before" in why
    back = (await application.admin.get(f"/api/v1/states/{oldest}/diff", params={"with": newest})).json()
    assert back["counts"] == {"delete": 1, "update": 1}
    other = await application.scalar("SELECT id FROM states WHERE status = 'current' AND version = 3")
    await application.admin.refused("GET", f"/api/v1/states/{newest}/diff", 409, params={"with": other})
    read = "SELECT count(*) FROM audit WHERE action = 'state.read' AND target_id = :id"
    assert await application.scalar(read, id=newest) >= 2


@pytest.mark.usefixtures("jobs")
async def test_a_state_that_cannot_be_compared_or_decrypted_is_explained(application: Application) -> None:
    someone = await logged_in(application)
    vpn = await application.scalar("SELECT id FROM modules WHERE path = 'platform/edge/vpn'")
    assert "They cannot be listed" in await someone.see(f"/dashboard/modules/{vpn}")
    assert b"hush-2" in state(2, "x")
