"""The pages of cloud identities: what a failed test means, what to paste, what is in the account, and a form with fields."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.model import CloudIdentity
from terracrew.server.dashboard.cloud_identities import handlers
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in

HERE = "/dashboard/cloud-identities"
ROLE = "arn:aws:iam::123456789012:role/crew"
FORM = {"kind": "aws", "name": "new", "group": "", "role_arn": ROLE, "region": "eu-central-1", "way": "web_identity"}
pytestmark = pytest.mark.feature("U6.clouds")


async def identity_id(application: Application, name: str = "aws-prod") -> str:
    return str(await application.scalar("SELECT id FROM cloud_identities WHERE name = :name", name=name))


async def test_a_failed_check_comes_first_with_its_consequence_and_its_remedy(
    application: Application, jobs: dict[str, str]
) -> None:
    assert jobs
    someone = await logged_in(application)
    page = await someone.see(f"{HERE}/{await identity_id(application)}")
    assert "1 check failed" in page
    assert "6 of 7 passed" in page
    failure, first_passed = page.index("iam:PassRole is missing"), page.index("The issuer&#39;s keys are published")
    assert failure < first_passed
    part = page[failure:first_passed]
    assert "<code>GiveRoles</code>" in part
    assert "The test passed" in part
    assert "<b>frankfurt-prod</b> may not wake until this is mended" in part
    assert 'data-copy="policy-permissions"' in part
    missing = re.findall(r'<span class="missing"( id="missing-may_GiveRoles")?>([^<]*)', page)
    assert [line.strip() for _, line in missing] == ["&#34;iam:PassRole&#34;"]
    assert 'href="#missing-may_GiveRoles"' in part
    marked = re.findall(r'<span class="subject">([^<]*)', page)
    assert len(marked) == 1
    assert "organization:acme:cloud-identity:aws-prod:7f3c91e2" in marked[0]


async def test_the_policies_are_shown_in_both_forms_by_plain_links(
    application: Application, jobs: dict[str, str]
) -> None:
    assert jobs
    someone, it = await logged_in(application), await identity_id(application)
    page = await someone.see(f"{HERE}/{it}")
    assert f'href="{HERE}/{it}?show=opentofu#policies"' in page
    assert 'id="policy-trust"' in page
    tofu = await someone.see(f"{HERE}/{it}?show=opentofu")
    assert 'id="policy-opentofu"' in tofu
    assert "resource &#34;aws_iam_role&#34;" in tofu
    assert 'id="policy-trust"' not in tofu
    cluster = await someone.see(f"{HERE}/{await identity_id(application, 'cluster')}?show=opentofu")
    assert "RoleBinding" in cluster
    assert "Not tested" in cluster


async def test_what_has_lost_its_owner_is_on_top_and_the_sum_below(
    application: Application, jobs: dict[str, str]
) -> None:
    assert jobs
    someone = await logged_in(application)
    page = await someone.see(f"{HERE}/{await identity_id(application)}")
    report = page[page.index('id="report-title"') :]
    assert report.index("/terracrew/warehouse-test") < report.index("/terracrew/frankfurt-prod")
    assert "Not of this organization" in report
    assert "$10.90" in report
    assert "1 resource without a known price" in report


async def test_an_identity_is_created_with_fields_and_a_mistake_stands_beside_its_field(
    application: Application,
) -> None:
    someone = await logged_in(application)
    await someone.see(f"{HERE}/create")
    wrong = await someone.submit(f"{HERE}/create", **FORM | {"region": "Frankfurt"})
    assert wrong.status_code == 200
    assert 'id="region-wrong"' in wrong.text
    assert "is not the name of an AWS region" in wrong.text
    assert f'value="{ROLE}"' in wrong.text, "what was typed stays"
    wrong = await someone.submit(f"{HERE}/create", **FORM | {"name": "A b"})
    assert 'id="name-wrong"' in wrong.text
    made = await someone.submit(f"{HERE}/create", **FORM)
    it = await identity_id(application, "new")
    assert (made.status_code, made.headers["location"]) == (303, f"{HERE}/{it}")
    taken = await someone.submit(f"{HERE}/create", **FORM)
    assert "in that group already" in taken.text
    key = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----"
    cluster = {"kind": "kubernetes", "name": "k", "way": "web_identity", "api_url": "https://203.0.113.7"}
    refused = await someone.submit(f"{HERE}/create", **cluster | {"ca_certificate": key})
    assert 'id="ca-certificate-wrong"' in refused.text
    assert await identity_id(application, "k") == "None"

    edited = await someone.submit(f"{HERE}/{it}/edit", **FORM | {"description": "x", "region": "eu-west-1"})
    assert edited.status_code == 303
    page = await someone.see(f"{HERE}/{it}")
    assert "eu-west-1" in page
    tested = await someone.submit(f"{HERE}/{it}/test")
    assert tested.status_code == 303
    assert "Testing" in await someone.see(f"{HERE}/{it}")
    assert (await someone.submit(f"{HERE}/{it}/delete")).headers["location"] == HERE
    assert (await someone.get(f"{HERE}/{it}")).status_code == 404


async def test_a_viewer_sees_an_identity_and_no_buttons(application: Application, jobs: dict[str, str]) -> None:
    assert jobs
    it = await identity_id(application)
    await application.person("vera", "viewer")
    vera = await logged_in(application, "vera")
    page = await vera.see(f"{HERE}/{it}")
    assert ROLE in page
    for button in ('id="test"', 'id="look"', 'id="delete"', f"{it}/edit"):
        assert button not in page
    assert 'id="create"' not in await vera.see(HERE)
    for path in ("test", "look", "delete"):
        assert (await vera.submit(f"{HERE}/{it}/{path}")).status_code == 403
    assert (await vera.get(f"{HERE}/{it}/edit")).status_code == 403
    assert (await vera.get(f"{HERE}/create")).status_code == 403
    await application.person("sam", "owner", "", "other")
    stranger = await logged_in(application, "sam")
    assert "aws-prod" not in await stranger.see(HERE)
    assert (await stranger.get(f"{HERE}/{it}")).status_code == 404


class SlowCloud:
    """Answers when the test lets it."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()

    async def found(self, identity: CloudIdentity) -> Sequence[FoundResource]:
        del identity
        await self.may_answer.wait()
        return []


async def test_a_look_that_takes_long_does_not_hold_up_the_page(
    application: Application, jobs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs
    cloud: Any = SlowCloud()
    monkeypatch.setattr(handlers, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(application.server.fleet, "found", cloud.found)
    someone, it = await logged_in(application), await identity_id(application)
    await someone.see(f"{HERE}/{it}")
    assert (await someone.submit(f"{HERE}/{it}/look")).status_code == 303
    assert "Nothing of ours is there" not in await someone.see(f"{HERE}/{it}")
    cloud.may_answer.set()
    await application.server.tasks.join()
    assert "Nothing of ours is there" in await someone.see(f"{HERE}/{it}")
