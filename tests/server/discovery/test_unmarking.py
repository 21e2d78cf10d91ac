"""The mark of a module whose folder is gone ends with the rule that looks at the folder."""

import pytest

from tests.server.application import on_one
from tests.server.discovery.found import Found

RULE = "/api/v1/discovery-rules/team%2Fall"


async def marked(found: Found) -> set[str]:
    return {path for path, each in (await found.modules()).items() if each["source_gone"]}


async def test_a_rule_that_is_disabled_marks_nothing_any_longer(found: Found) -> None:
    await found.rule()
    await found.step()
    found.remove("prod/network")
    await found.push()
    assert await marked(found) == {"team/prod/network"}
    await found.app.admin.patch(RULE, json={"is_enabled": False})
    assert await marked(found) == set()
    await found.app.admin.patch(RULE, json={"is_enabled": True})
    await found.step()
    assert await marked(found) == {"team/prod/network"}


@on_one
@pytest.mark.parametrize("is_deleted", [False, True])
async def test_what_another_rule_marks_stays_marked(found: Found, is_deleted: bool) -> None:
    await found.rule()
    await found.rule(name="other", include=["nothing"])
    await found.app.admin.made("/api/v1/groups", {"path": "far"})
    await found.rule(name="apart", group="far", include=["prod/network"])
    await found.step()
    found.remove("prod/network")
    await found.push()
    both = {"far/prod/network", "team/prod/network"}
    assert await marked(found) == both
    if is_deleted:
        await found.app.admin.delete(RULE)
    else:
        await found.app.admin.patch(RULE, json={"is_enabled": False})
    assert await marked(found) == both
    await found.app.admin.patch("/api/v1/discovery-rules/team%2Fother", json={"is_enabled": False})
    assert await marked(found) == {"far/prod/network"}


@on_one
async def test_a_rule_that_ends_with_its_group_marks_nothing_any_longer(found: Found) -> None:
    await found.rule(module_path="{flat}")
    await found.step()
    await found.app.admin.made("/api/v1/groups", {"path": "far"})
    for path, each in (await found.modules()).items():
        moved = await found.app.admin.post(
            f"/api/v1/modules/{each['id']}/move", json={"path": path.replace("team", "far")}
        )
        assert moved.status_code < 300, moved.text
    found.remove("prod/network")
    await found.push()
    assert await marked(found) == {"far/prod-network"}
    await found.app.admin.made("/api/v1/groups", {"path": "team/inner"})
    refused = await found.app.admin.delete("/api/v1/groups/team")
    assert refused.status_code == 409
    assert await marked(found) == {"far/prod-network"}, "the group is still there"
    await found.app.admin.delete("/api/v1/groups/team%2Finner")
    assert (await found.app.admin.delete("/api/v1/groups/team")).status_code < 300
    assert await marked(found) == set()
