"""Two people change the same settings: a form changes only what was changed in it, and never what it did not show."""

import html
import re
from typing import Any

import httpx
import msgspec
import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U6.tree")
SOURCE = {"kind": "local", "path": "/srv/sources"}
ROLE = "arn:aws:iam::111122223333:role"
CLOUD = {"aws": {"plan_role": f"{ROLE}/plan", "apply_role": f"{ROLE}/apply"}}


def shown(page: str, action: str) -> dict[str, str]:
    """Return what a browser sends of an untouched form: all fields, and what they show."""
    form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
    found = re.search(r'name="_stored" value="([^"]*)"', form)
    assert found, form
    stored = html.unescape(found[1])
    return msgspec.json.decode(stored, type=dict[str, str]) | {"_stored": stored}


async def opened(someone: Visitor, action: str) -> dict[str, str]:
    return shown(await someone.see(action if action.endswith("/edit") else action.rpartition("/")[0]), action)


def mistake(answer: httpx.Response, field: str) -> str:
    assert answer.status_code == 200, "it is not saved"
    return html.unescape(answer.text.partition(f'id="{field}-wrong" role="alert">')[2].partition("</span>")[0])


async def made(application: Application, **settings: Any) -> tuple[Visitor, str, str]:
    """Return an owner, and the addresses of the settings of a group and of a module in it."""
    group = await application.admin.made("/api/v1/groups", {"path": "net", **settings})
    module = await application.admin.made("/api/v1/modules", {"path": "net/vpc", "source": SOURCE})
    someone = await logged_in(application)
    return someone, f"/dashboard/groups/{group['id']}/settings", f"/dashboard/modules/{module['id']}/settings"


async def change(application: Application, what: str, **settings: Any) -> None:
    answer = await application.admin.patch(f"/api/v1/{what}", json=settings)
    assert answer.status_code == 200, answer.text


async def stored(application: Application, what: str, *names: str) -> list[Any]:
    found = (await application.admin.get(f"/api/v1/{what}")).json()
    return [found[name] for name in names]


RULES = ("max_destroy", "self_approval", "min_approvals")


async def test_stricter_rules_survive_a_form_that_was_opened_before_them(application: Application) -> None:
    """The form sent the rules that it had shown, so that saving the number of approvals silently allowed ten destroys again."""
    someone, group, _ = await made(application, max_destroy=10, self_approval=True)
    form = await opened(someone, f"{group}/approval")
    await change(application, "groups/net", max_destroy=0, self_approval=False)
    answer = await someone.submit(f"{group}/approval", **form | {"min_approvals": "2"})
    assert answer.status_code == 303, answer.text
    assert await stored(application, "groups/net", *RULES) == [0, False, 2]


async def test_a_field_that_somebody_else_has_changed_is_looked_at_before_it_is_saved(application: Application) -> None:
    """The last of two people who changed the same rule won, and did not know that there had been another."""
    someone, group, _ = await made(application, max_destroy=10, self_approval=True)
    action = f"{group}/approval"
    form = await opened(someone, action)
    await change(application, "groups/net", max_destroy=0, self_approval=False)
    refused = await someone.submit(action, **form | {"max_destroy": "5", "min_approvals": "2"})
    assert mistake(refused, "max-destroy") == "This was changed meanwhile to '0': look at it and save again."
    assert 'name="max_destroy" value="5"' in refused.text, "what was typed stays"
    assert '<option value="no" selected>No</option>' in refused.text, "what was not typed is what is stored now"
    assert await stored(application, "groups/net", *RULES) == [0, False, None]
    again = shown(refused.text, action) | {"max_destroy": "5", "min_approvals": "2"}
    assert (await someone.submit(action, **again)).status_code == 303
    assert await stored(application, "groups/net", *RULES) == [5, False, 2]


async def test_two_people_who_make_the_same_change_do_not_hinder_each_other(application: Application) -> None:
    someone, group, _ = await made(application, max_destroy=10)
    form = await opened(someone, f"{group}/approval")
    await change(application, "groups/net", max_destroy=0)
    answer = await someone.submit(f"{group}/approval", **form | {"max_destroy": "0", "min_approvals": "2"})
    assert answer.status_code == 303, answer.text
    assert await stored(application, "groups/net", *RULES) == [0, None, 2]


async def test_each_limit_of_a_module_is_changed_by_itself(application: Application) -> None:
    """Whoever saved one limit set all others back to what the form had shown, those of single steps, too."""
    someone, _, module = await made(application)
    limits = {"job_seconds": 7200, "memory_mb": 512, "step_seconds": {"plan": 600, "apply": 3600}}
    await change(application, "modules/net%2Fvpc", limits=limits)
    action = f"{module}/limits"
    form = await opened(someone, action)
    changed = limits | {"memory_mb": 256, "step_seconds": {"plan": 300}}
    await change(
        application, "modules/net%2Fvpc", limits={"memory_mb": 256, "step_seconds": {"plan": 300, "apply": None}}
    )
    assert (await someone.submit(action, **form | {"limits.job_seconds": "1h"})).status_code == 303
    assert await stored(application, "modules/net%2Fvpc", "limits") == [changed | {"job_seconds": 3600}]
    refused = await someone.submit(action, **form | {"limits.step_seconds": "plan=1h"})
    assert "changed meanwhile to 'plan=5m': look" in mistake(refused, "limits-step-seconds")
    assert await stored(application, "modules/net%2Fvpc", "limits") == [changed | {"job_seconds": 3600}]


async def test_a_cloud_login_that_was_removed_meanwhile_does_not_come_back(application: Application) -> None:
    """A login is stored as a whole: a form that changed one part of it sent the other parts as it had shown them."""
    someone, group, _ = await made(application, cloud=CLOUD)
    action = f"{group}/cloud"
    form = await opened(someone, action)
    await change(application, "groups/net", cloud={"aws": None})
    refused = await someone.submit(action, **form | {"cloud.aws.plan_role": f"{ROLE}/other"})
    for field in ("cloud-aws-plan-role", "cloud-aws-apply-role"):
        assert "changed meanwhile to 'Not set': look" in mistake(refused, field)
    assert await stored(application, "groups/net", "cloud") == [{}]
    assert (await someone.submit(action, **form)).status_code == 303, "nothing was changed in it"
    assert await stored(application, "groups/net", "cloud") == [{}]


@pytest.mark.feature("R1.fields", "C2.configuration")
async def test_the_form_of_a_runner_changes_only_what_was_changed_in_it(application: Application) -> None:
    """A tag that somebody had added disappeared when another person saved the description."""
    runner = await application.admin.made("/api/v1/runners", {"name": "r", "description": "old", "tags": ["a"]})
    someone = await logged_in(application)
    action = f"/dashboard/runners/{runner['id']}/edit"
    form = await opened(someone, action)
    configuration = {"heartbeat_seconds": 2.5}
    await change(application, "runners/r", tags=["a", "b"], allow_multiple_instances=True, configuration=configuration)
    answer = await someone.submit(action, **form | {"description": "new", "configuration.batch_size_limit": "9"})
    assert answer.status_code == 303, answer.text
    found = await stored(application, "runners/r", "description", "tags", "allow_multiple_instances", "configuration")
    assert found[:3] == ["new", ["a", "b"], True]
    assert (found[3]["heartbeat_seconds"], found[3]["batch_size_limit"]) == (2.5, 9)
    refused = await someone.submit(action, **form | {"tags": "a, c", "description": "newer"})
    assert mistake(refused, "tags") == "This was changed meanwhile to 'a, b': look at it and save again."
    assert "'new'" in mistake(refused, "description")
    assert await stored(application, "runners/r", "description", "tags") == found[:2]
    assert (await someone.submit(action, **shown(refused.text, action) | {"tags": "c"})).status_code == 303
    assert await stored(application, "runners/r", "description", "tags") == ["new", ["c"]]


@pytest.mark.parametrize(
    "text", ["", "null", "[", "[[[[", '{"max_destroy": 1}', '{"max_destroy": null}', '"\\ud800"', "{" * 5000]
)
async def test_a_form_that_does_not_say_what_it_showed_is_refused(application: Application, text: str) -> None:
    someone, group, _ = await made(application, max_destroy=10)
    runner = await application.admin.made("/api/v1/runners", {"name": "r"})
    await someone.see(group)
    for action in (f"{group}/approval", f"/dashboard/runners/{runner['id']}/edit"):
        refused = await someone.submit(action, _stored=text, max_destroy="5", description="new")
        assert (refused.status_code, "does not say what it showed" in refused.text) == (400, True), refused.text
    assert await stored(application, "groups/net", "max_destroy") == [10]


async def test_a_form_may_say_that_it_showed_other_fields(application: Application) -> None:
    """Names that the form does not have are not looked at, and a field that is not among them was not seen to change."""
    someone, group, _ = await made(application, max_destroy=10, description=" two \n")
    await someone.see(group)
    form = {"_stored": '{"<b>": "\\u0000", "_csrf": "x"}', "max_destroy": "5"}
    assert (await someone.submit(f"{group}/approval", **form)).status_code == 303
    assert await stored(application, "groups/net", "max_destroy") == [5]
    assert (await someone.submit(f"{group}/general", **await opened(someone, f"{group}/general"))).status_code == 303
    assert await stored(application, "groups/net", "description") == [" two \n"], "nothing was changed in it"
