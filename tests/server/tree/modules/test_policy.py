"""Of the approval rules of all places from the organization down to a module, the strictest applies."""

from typing import Any

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.tree.modules import policy, store
from terracrew.server.tree.modules.policy import DestroyLimits, JobSettings, ModulePolicy
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

SOURCE = {"kind": "local", "path": "/srv/sources/x"}


async def make(application: Application, above: dict[str, Any], below: dict[str, Any], own: dict[str, Any]) -> str:
    """Make `corp/team/app`, with these rules of `corp`, of `corp/team` and of the module, and return its id."""
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "corp", **above})
    await admin.made("/api/v1/groups", {"path": "corp/team", **below})
    made = await admin.made("/api/v1/modules", {"path": "corp/team/app", "source": SOURCE, "engine": "tofu", **own})
    return made["id"]


async def rules_of(application: Application, module_id: str) -> ModulePolicy:
    return await application.server.db.read(lambda tx: policy.of_module(tx, module_id))


@pytest.mark.feature("J8.threshold")
async def test_nobody_weakens_the_rules_of_a_group_from_below_it(application: Application) -> None:
    """An owner of `corp/team` set `self_approval` on it, and approved their own apply although `corp` says no."""
    strict = {"self_approval": False, "service_account_approval": False, "max_destroy": 0, "max_destroy_percent": 5}
    weak = {"self_approval": True, "service_account_approval": True, "max_destroy": 1000, "max_destroy_percent": 100}
    strict, weak = strict | {"interrupted": "ask"}, weak | {"interrupted": "retry"}
    own = {"max_destroy": 50, "max_destroy_percent": 90, "interrupted": "retry"}
    found = await rules_of(application, await make(application, strict, weak, own))
    assert (found.self_approval, found.service_account_approval) == (False, False)
    assert found.limits == DestroyLimits(0, 5)
    assert {rule.path for rule in found.rules if rule.name != "min_approvals"} == {"corp"}


@pytest.mark.feature("J8.threshold")
async def test_a_place_makes_the_rules_of_the_places_above_it_stricter(application: Application) -> None:
    weak = {"self_approval": True, "service_account_approval": True, "max_destroy": 9, "min_approvals": 1}
    found = await rules_of(
        application, await make(application, weak, {"self_approval": False, "max_destroy": 4}, {"min_approvals": 2})
    )
    assert (found.self_approval, found.service_account_approval) == (False, True)
    assert (found.limits, found.min_approvals) == (DestroyLimits(4, None), 2)
    places = {rule.name: rule.path for rule in found.rules}
    assert places == {
        "max_destroy": "corp/team",
        "max_destroy_percent": None,
        "self_approval": "corp/team",
        "service_account_approval": "corp",
        "min_approvals": "corp/team/app",
        "interrupted": None,
    }


@pytest.mark.feature("J8.threshold")
@pytest.mark.parametrize(
    ("above", "below", "own", "applies"),
    [
        ("ask", "retry", "retry", "ask"),
        ("retry", "ask", "retry", "ask"),
        ("retry", None, "ask", "ask"),
        ("retry", None, None, "retry"),
        (None, None, "retry", "retry"),
        (None, None, None, "ask"),
    ],
)
async def test_a_job_asks_after_an_interrupted_change_if_any_place_says_so(
    application: Application, above: str | None, below: str | None, own: str | None, applies: str
) -> None:
    """An owner of one module set `retry` on it, and its change was tried again without a person although `corp` says `ask`."""
    module = await make(application, {"interrupted": above}, {"interrupted": below}, {"interrupted": own})

    async def settings(tx: Tx) -> JobSettings:
        return (await policy.effective_settings(tx, await store.hold_many(tx, [module])))[module]

    assert (await application.server.db.write(settings)).interrupted == applies


async def test_without_any_rule_people_approve_their_own_jobs_and_service_accounts_do_not(
    application: Application,
) -> None:
    found = await rules_of(application, await make(application, {}, {}, {}))
    assert (found.self_approval, found.service_account_approval, found.min_approvals) == (True, False, 0)
    assert found.limits == DestroyLimits()
    assert {rule.path for rule in found.rules} == {None}


async def test_a_module_and_a_group_are_shown_with_the_rules_that_apply_and_their_places(
    application: Application,
) -> None:
    strict = {"self_approval": False, "max_destroy": 0, "interrupted": "ask"}
    weak = {"self_approval": True, "max_destroy": 1000, "interrupted": "retry"}
    module = await make(application, strict, weak, {"min_approvals": 2})
    shown = (await application.admin.get(f"/api/v1/modules/{module}")).json()["approval_rules"]
    assert shown == [
        {"name": "max_destroy", "value": 0, "path": "corp"},
        {"name": "max_destroy_percent", "value": None, "path": None},
        {"name": "self_approval", "value": False, "path": "corp"},
        {"name": "service_account_approval", "value": False, "path": None},
        {"name": "min_approvals", "value": 2, "path": "corp/team/app"},
        {"name": "interrupted", "value": "ask", "path": "corp"},
    ]
    group = (await application.admin.get("/api/v1/groups/corp%2Fteam")).json()
    assert (group["self_approval"], group["max_destroy"]) == (True, 1000), "what the group itself says"
    assert group["approval_rules"][:4] == shown[:4]
    assert group["approval_rules"][4] == {"name": "min_approvals", "value": 0, "path": None}

    someone = await logged_in(application)
    page = await someone.see(f"/dashboard/groups/{group['id']}")
    assert "This group says at most 1,000, which has no effect: the strictest rule applies." in page
    assert "This group says yes, which has no effect: the strictest rule applies." in page
    assert "This group says retry, which has no effect: the strictest rule applies." in page
    form = await someone.see(f"/dashboard/groups/{group['id']}/settings")
    assert "Yes has no effect here, because corp says no." in form
    assert "Retry has no effect here, because corp says ask a person." in form
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "nobody approves their own jobs (corp)" in page
    assert "after a change that was cut short, the next plan needs an approval (corp)" in page
    assert "2 people must approve each change (corp/team/app)" in page
    assert (
        '<dt>Approval</dt><dd>2 people for each change</dd><dd class="sub">required by corp/team/app, within 7d<'
        in page
    )


ASKED = "It plans first. Then 2 people must approve the plan, because corp requires it; nobody approves their own jobs."


@pytest.mark.feature("J8.threshold")
async def test_every_page_says_that_a_group_above_requires_approvals(application: Application) -> None:
    """The list, its dialog and the destroy page said that the plan is applied without asking again, where two people had to approve."""
    module = await make(application, {"min_approvals": 2, "self_approval": False}, {}, {"backend": "own"})
    team = (await application.admin.get("/api/v1/groups/corp%2Fteam")).json()["id"]
    someone = await logged_in(application)
    for page in ("/dashboard/modules", f"/dashboard/groups/{team}", f"/dashboard/modules/{module}"):
        shown = await someone.see(page)
        assert "2 people must approve" in shown, page
        assert f'data-consequence="{ASKED}"' in shown, page
        assert "without asking again" not in shown, page
    destroy = await someone.see(f"/dashboard/modules/{module}/destroy")
    assert ASKED in destroy
    assert "without asking again" not in destroy


@pytest.mark.feature("J8.threshold")
async def test_a_module_whose_plans_need_an_approval_is_a_place_with_the_rule(application: Application) -> None:
    module = await make(application, {}, {}, {"needs_approval": True})
    assert (await rules_of(application, module)).min_approvals == 1
    shown = (await application.admin.get(f"/api/v1/modules/{module}")).json()["approval_rules"]
    assert shown[4] == {"name": "min_approvals", "value": 1, "path": "corp/team/app"}
    stricter = {"needs_approval": True, "min_approvals": 3}
    other = await application.admin.made(
        "/api/v1/modules", {"path": "corp/team/b", "source": SOURCE, "engine": "tofu", **stricter}
    )
    assert (await rules_of(application, other["id"])).min_approvals == 3


@pytest.mark.feature("J8.needed")
async def test_the_dialog_names_how_much_an_apply_destroys_without_an_approval(application: Application) -> None:
    module = await make(application, {"max_destroy": 5, "max_destroy_percent": 20}, {}, {})
    page = await (await logged_in(application)).see(f"/dashboard/modules/{module}")
    limits = "more than 5 resources, more than 20 % of the resources, or all of them"
    assert f"<dt>Approval</dt><dd>only to destroy {limits}</dd>" in page
    assert f"applies the plan without asking again, unless the plan destroys {limits}." in page
