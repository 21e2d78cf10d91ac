"""A module is created on a page, from an uploaded archive or a folder on the runners, with each mistake beside its field."""

import html
import re

import pytest

from terracrew.server.db.seam import Tx
from terracrew.server.tree.groups.service import ensure_organization
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor
from tests.server.tree.modules.packed_modules import packed

pytestmark = [pytest.mark.feature("U6.tree"), pytest.mark.usefixtures("jobs")]
HERE = "/dashboard/modules/create"


async def upload(someone: Visitor, content: bytes) -> str:
    """Upload an archive as the page does: with the session, and with the token of the form."""
    headers = {"X-CSRF-Token": someone.csrf, "Content-Type": "application/gzip"}
    answer = await someone.post("/api/v1/archives", content=content, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def wrong(page: str) -> dict[str, str]:
    """Return the messages of a form, by the field beside which each stands."""
    found = re.findall(r'<span class="wrong" id="module-(\w+)-wrong" role="alert">(.*?)</span>', page)
    return {field: html.unescape(re.sub("<[^>]+>", "", text)) for field, text in found}


async def test_a_module_is_created_from_an_uploaded_archive_with_all_that_the_form_says(
    application: Application,
) -> None:
    someone = await logged_in(application)
    group = await someone.see("/dashboard/groups/payments%2Fprod")
    assert f'href="{HERE}?group=payments%2Fprod"' in group
    assert f'href="{HERE}"' in await someone.see("/dashboard/modules")
    assert 'value="payments/prod"' in await someone.see(f"{HERE}?group=payments%2Fprod")
    archive = await upload(someone, packed(("live/main.tf", b"")))
    answer = await someone.submit(
        HERE,
        name=" cards ",
        group="payments/prod/",
        source="archive",
        archive=archive,
        subdirectory="live",
        engine="tofu",
        description="Card numbers",
        tags="eu, pci",
        runner="payments/prod",
        runner_instance_name="a",
        needs_approval="true",
    )
    assert answer.status_code == 303, answer.text
    module = (await application.admin.get("/api/v1/modules/payments%2Fprod%2Fcards")).json()
    assert answer.headers["location"] == f"/dashboard/modules/{module['id']}"
    assert (module["source"]["archive_id"], module["source"]["subdirectory"]) == (archive, "live")
    assert (module["tags"], module["runner_instance_name"], module["needs_approval"]) == (["eu", "pci"], "a", True)
    assert (module["description"], module["engine"]) == ("Card numbers", "tofu")
    assert ">payments/prod</a>" in await someone.see(answer.headers["location"])


async def test_a_module_is_created_from_a_folder_that_the_server_allows(application: Application) -> None:
    someone = await logged_in(application)
    assert "A folder on the runners" in await someone.see(HERE)
    form = {"name": "shop", "group": "", "source": "local"}
    assert wrong((await someone.submit(HERE, **form, folder="/etc")).text) == {
        "source": "/etc is not under one of the server's local_roots (/srv/sources)."
    }
    assert (await someone.submit(HERE, **form, folder="/srv/sources/shop")).status_code == 303
    source = (await application.admin.get("/api/v1/modules/shop")).json()["source"]
    assert source == {"kind": "local", "path": "/srv/sources/shop", "subdirectory": ""}


@pytest.mark.feature("J5.git", "J5.registry")
async def test_a_module_is_created_from_a_repository_or_a_registry(application: Application) -> None:
    someone = await logged_in(application)
    page = await someone.see(HERE)
    for kind in ("archive", "git", "registry", "local"):
        assert f'name="source" value="{kind}"' in page
    url = "git@git.example.com:acme/network.git"
    form = {"name": "vpc", "group": "", "source": "git", "url": url, "revision_kind": "tag", "revision": "v1"}
    refused = await someone.submit(HERE, **form | {"name": "No", "url": "ext::sh -c id", "credential": "KEY"})
    assert set(wrong(refused.text)) == {"name", "url"}
    assert set(wrong((await someone.submit(HERE, **form, credential="KEY")).text)) == {"hosts"}
    assert set(wrong((await someone.submit(HERE, **form | {"revision": "-f"})).text)) == {"revision"}
    assert (await someone.submit(HERE, **form)).status_code == 303
    source = (await application.admin.get("/api/v1/modules/vpc")).json()["source"]
    assert (source["url"], source["tag"], source["submodules"]) == (url, "v1", False)
    form = {"name": "eks", "source": "registry", "address": "acme/eks/aws", "engine": "terraform"}
    assert set(wrong((await someone.submit(HERE, **form, version="newest")).text)) == {"version"}
    assert (await someone.submit(HERE, **form, version="~> 5.0")).status_code == 303
    source = (await application.admin.get("/api/v1/modules/eks")).json()["source"]
    assert source["address"] == "registry.terraform.io/acme/eks/aws"


async def test_each_mistake_stands_beside_its_field_and_nothing_that_was_typed_is_lost(
    application: Application,
) -> None:
    someone = await logged_in(application)
    await someone.see(HERE)
    form = {
        "name": "No",
        "group": "payments/nowhere",
        "engine": "To fu",
        "runner": "no/such",
        "runner_instance_name": "i" * 500,
        "tags": "good, b@d",
        "description": "d" * 3000,
    }
    answer = await someone.submit(HERE, **form)
    assert answer.status_code == 200
    found = wrong(answer.text)
    assert set(found) == {"name", "group", "source", "engine", "runner", "instance", "tags", "description"}
    assert "is not a valid name" in found["name"]
    assert found["group"] == "There is no group payments/nowhere here, or you may not see it."
    assert 'value="good, b@d"' in answer.text

    right = {"name": "fine", "group": "payments", "engine": "tofu"}
    assert wrong((await someone.submit(HERE, **right)).text) == {
        "source": "Choose an archive, and wait until it is uploaded."
    }
    for archive in ("nonsense", "arc_" + "0" * 32):
        assert set(wrong((await someone.submit(HERE, **right, archive=archive)).text)) == {"source"}
    empty = await upload(someone, packed(("notes.txt", b"")))
    again = await someone.submit(HERE, **right, archive=empty, archive_name="notes.tar.gz")
    assert set(wrong(again.text)) == {"source"}
    assert "notes.tar.gz is uploaded." in again.text
    good = await upload(someone, packed(("main.tf", b"")))
    taken = await someone.submit(HERE, name="prod", group="payments", archive=good)
    assert wrong(taken.text) == {"name": "There is a group payments/prod already."}
    assert f'name="archive" value="{good}"' in taken.text, "the archive need not be uploaded again"
    assert await application.scalar("SELECT count(*) AS n FROM modules WHERE name = 'fine'") == 0


@pytest.mark.feature("X3.roles")
async def test_only_those_who_may_change_a_group_create_modules_in_it(application: Application) -> None:
    async def work(tx: Tx) -> None:
        await ensure_organization(tx, "elsewhere")

    await application.server.db.write(work)
    await application.person("vera", "viewer")
    await application.person("otto", "operator", "payments")
    await application.person("olga", "owner", "payments/prod")
    await application.person("eve", "owner", organization="elsewhere")
    for name in ("vera", "otto"):
        someone = await logged_in(application, name)
        assert HERE not in await someone.see("/dashboard/modules")
        assert HERE not in await someone.see("/dashboard/groups/payments%2Fprod")
        await someone.see(HERE, 403)
        assert (await someone.submit(HERE, name="x", group="payments", source="local")).status_code == 403
    admin = await logged_in(application)
    await admin.see(HERE)
    ours = await upload(admin, packed(("main.tf", b"")))
    olga = await logged_in(application, "olga")
    await olga.see(HERE)
    theirs = await upload(olga, packed(("main.tf", b"")))
    for group in ("", "payments", "platform", "payments/prod/nowhere"):
        page = (await olga.submit(HERE, name="x", group=group, archive=theirs)).text
        assert set(wrong(page)) == {"group"}, group
    page = (await olga.submit(HERE, name="x", group="payments/prod", archive=ours)).text
    assert "that you have uploaded" in wrong(page)["source"]
    assert (await olga.submit(HERE, name="x", group="payments/prod", archive=theirs)).status_code == 303
    eve = await logged_in(application, "eve")
    await eve.see(HERE)
    assert "no archive" in wrong((await eve.submit(HERE, name="x", archive=ours)).text)["source"]
    assert "There is no group" in wrong((await eve.submit(HERE, name="x", group="payments")).text)["group"]
    assert (await admin.post(HERE, data={"name": "x"})).status_code == 403, "the token of the page is missing"
    assert (await visitor(application).post(HERE, data={"name": "x"})).status_code in (303, 403)
