"""The form for the source of a module shows it, changes it, and keeps what was typed when it is refused."""

import pytest

from tests.builders.job_rows import change_jobs
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.tree.modules.packed_modules import packed

pytestmark = pytest.mark.feature("J5.git")
URL = "https://git.example.com/acme/network.git"


@on_one
async def test_an_owner_makes_a_repository_the_source_of_a_module_and_others_do_not(application: Application) -> None:
    admin = application.admin
    module = await admin.made("/api/v1/modules", {"path": "vpc", "source": {"kind": "local", "path": "/srv/sources"}})
    here = f"/dashboard/modules/{module['id']}"
    someone = await logged_in(application)
    assert f'href="{here}/source"' in await someone.see(here)
    assert "/srv/sources on the runner" in await someone.see(f"{here}/source")
    fields = {"source": "git", "url": URL, "revision_kind": "version", "revision": "~> 1.2", "subdirectory": "/vpc/"}
    fields |= {"submodules": "true"}
    answer = await someone.submit(f"{here}/source", **fields)
    assert answer.status_code == 303, answer.text
    found = (await admin.get(f"/api/v1/modules/{module['id']}")).json()["source"]
    assert (found["url"], found["version"], found["subdirectory"], found["submodules"]) == (URL, "~> 1.2", "vpc", True)
    assert f"{URL}//vpc, version ~&gt; 1.2" in (await someone.see(here)).replace("<wbr>", "")
    for wrong, words in (
        ({"url": "ext::sh -c id"}, "would use &#39;ext&#39;, which is not allowed"),
        ({"revision_kind": "branch", "revision": "--upload-pack=id"}, "begins with <code>-</code>"),
        ({"revision_kind": "tag", "revision": ""}, "the tag is missing"),
        ({"revision_kind": "", "revision": "main"}, "choose what &#39;main&#39; is"),
        ({"revision_kind": "url", "revision": "x"}, "is not one of branch, tag, commit, version"),
        ({"subdirectory": "../.."}, "should be relative, without <code>.</code>"),
        ({"url": " "}, "write the address of the repository"),
        ({"source": "ext"}, "is not one of archive, git, registry, local"),
    ):
        refused = await someone.submit(f"{here}/source", **fields | wrong)
        assert words.lower() in refused.text.lower(), refused.text
        typed = (wrong.get("url") or wrong.get("revision") or wrong.get("subdirectory") or URL).replace(">", "&gt;")
        assert f'value="{typed}"' in refused.text, "what was typed is still there"
    assert (await admin.get(f"/api/v1/modules/{module['id']}")).json()["source"] == found
    key = {"url": "git@host:x", "credential": "DEPLOY_KEY", "known_hosts": "host ssh-ed25519 AAAAC3"}
    assert (await someone.submit(f"{here}/source", **fields | key)).status_code == 303
    assert (await admin.get(f"/api/v1/modules/{module['id']}")).json()["source"].items() >= key.items()
    form = await someone.see(f"{here}/source")
    assert 'value="DEPLOY_KEY"' in form
    assert ">host ssh-ed25519 AAAAC3</textarea>" in form
    await application.person("otto", "operator")
    operator = await logged_in(application, "otto")
    assert f'href="{here}/source"' not in await operator.see(here)
    await operator.see(f"{here}/source", 403)


@on_one
@pytest.mark.feature("J5.registry")
async def test_the_source_of_a_module_is_changed_to_each_kind_and_the_form_shows_it(application: Application) -> None:
    admin, someone = application.admin, await logged_in(application)
    module = await admin.made("/api/v1/modules", {"path": "vpc", "source": {"kind": "git", "url": URL}})
    here = f"/dashboard/modules/{module['id']}/source"
    assert 'value="git" checked' in await someone.see(here)

    async def changed(**fields: str) -> dict[str, object]:
        answer = await someone.submit(here, **fields)
        assert answer.status_code == 303, answer.text
        return (await admin.get(f"/api/v1/modules/{module['id']}")).json()["source"]

    found = await changed(source="registry", address="acme/network/aws", version="~> 5.0", url=URL)
    assert found["address"] == "registry.opentofu.org/acme/network/aws"
    form = await someone.see(here)
    assert 'value="registry" checked' in form
    assert 'value="~&gt; 5.0"' in form
    refused = await someone.submit(here, source="registry", address="acme/network/aws", version="newest")
    assert 'id="module-version-wrong"' in refused.text
    refused = await someone.submit(here, source="registry", address="https://host/a/b/c")
    assert 'id="module-address-wrong"' in refused.text
    headers = {"X-CSRF-Token": someone.csrf, "Content-Type": "application/gzip"}
    archive = (await someone.post("/api/v1/archives", content=packed(("live/main.tf", b"")), headers=headers)).json()[
        "id"
    ]
    assert (await changed(source="archive", archive=archive, subdirectory="live"))["archive_id"] == archive
    assert f'name="archive" value="{archive}"' in await someone.see(here)
    refused = await someone.submit(here, source="archive", archive="arc_" + "0" * 32)
    assert 'id="module-source-wrong"' in refused.text
    assert (await changed(source="local", folder="/srv/sources/vpc"))["path"] == "/srv/sources/vpc"
    refused = await someone.submit(here, source="local", folder="/etc")
    assert "is not under one of the" in refused.text


@on_one
async def test_the_page_of_a_job_shows_its_commit_and_that_a_tag_has_moved(application: Application) -> None:
    source = {"kind": "git", "url": URL, "tag": "v1"}
    await application.admin.made("/api/v1/modules", {"path": "vpc", "source": source})
    job = await application.admin.made("/api/v1/modules/vpc/jobs", {"type": "PLAN"})
    found = {"source_commit": "a" * 40, "source_moved_from": "b" * 40, "source_revision": "tag v1"}
    await change_jobs(application.server.db, job["id"], **found)
    page = await (await logged_in(application)).see(f"/dashboard/jobs/{job['id']}")
    assert f'title="{"a" * 40}">{"a" * 12}<' in page
    assert "The tag v1 has moved since an earlier job of this module" in page
    assert (await application.admin.get(f"/api/v1/jobs/{job['id']}")).json()["source_moved_from"] == "b" * 40
