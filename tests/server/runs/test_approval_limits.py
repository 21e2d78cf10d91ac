"""The explanation of a right to approve says what limits it."""

import pytest

from tests.server.application import Application

SOURCE = {"kind": "local", "path": "/srv/sources/x"}


@pytest.mark.feature("X3.explain")
async def test_a_right_to_approve_is_explained_with_the_settings_that_limit_it(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "pay"})
    await admin.made("/api/v1/modules", {"path": "pay/app", "source": SOURCE, "engine": "tofu"})
    await admin.made("/api/v1/service-accounts", {"name": "bot", "group": "pay"})
    await application.person("ada", "approver", "pay")
    await admin.made("/api/v1/roles", {"principal": "pay/bot", "role": "approver", "path": "pay"})

    async def limits(principal: str, path: str = "pay/app") -> tuple[bool, list[str]]:
        query = {"principal": principal, "verb": "job.approve", "path": path}
        found = (await admin.get("/api/v1/access/explain", params=query)).json()
        return found["is_allowed"], found["limits"]

    assert await limits("ada") == (True, [])
    assert [len(each) for _, each in [await limits("pay/bot")]] == [1]
    change = {"self_approval": False, "service_account_approval": True}
    assert (await admin.patch("/api/v1/groups/pay", json=change)).status_code == 200
    is_allowed, found = await limits("ada")
    assert is_allowed
    assert found == ["Not for jobs that ada has started: `pay` does not allow `self_approval`."]
    assert await limits("ada", "pay") == (True, found), "the group says the same as its module"
    assert await limits("pay/bot") == (True, [])
    assert await limits("pay/bot", "pay") == (True, [])
    assert await limits("admin", "") == (True, []), "the organization allows it"
