"""A module can have a git repository as its source. What git must not be given is refused by the API."""

from typing import Any

import pytest

from tests.server.application import Application, on_one

pytestmark = pytest.mark.feature("J5.git")
URL = "https://git.example.com/acme/network.git"


async def test_a_git_source_is_created_shown_and_changed(application: Application) -> None:
    source = {"kind": "git", "url": URL, "version": "~> 1.2", "subdirectory": "modules/vpc"}
    made = await application.admin.made("/api/v1/modules", {"path": "vpc", "source": source})
    whole = source | {"branch": "", "tag": "", "commit": "", "submodules": True, "credential": "", "known_hosts": ""}
    assert made["source"] == whole
    change = {"source": {"kind": "git", "url": "git@git.example.com:acme/network.git", "branch": "main"}}
    changed = await application.admin.patch("/api/v1/modules/vpc", json=change)
    assert changed.json()["source"]["branch"] == "main"
    assert (await application.admin.get("/api/v1/modules/vpc")).json()["source"] == changed.json()["source"]
    row = await application.scalar("SELECT details FROM audit WHERE action = 'module.change'")
    assert '"source"' in row


@on_one
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({}, "missing required field `url`"),
        ({"url": "ext::sh -c id"}, "source.url: 'ext::sh -c id' would use 'ext', which is not allowed"),
        ({"url": "file:///etc"}, "source.url: 'file:///etc' would use 'file', which is not allowed"),
        ({"url": "--upload-pack=id"}, "is not the address of a repository"),
        ({"url": "/srv/network"}, "a folder of this machine is given with `--from`"),
        ({"url": "https://ada:hunter2@host/x"}, "has a password in it"),
        ({"url": URL, "branch": "--upload-pack=id"}, "source.branch: '--upload-pack=id' begins with `-`"),
        ({"url": URL, "tag": "-f"}, "source.tag: '-f' begins with `-`"),
        ({"url": URL, "branch": "a", "tag": "b"}, "branch and tag are given"),
        ({"url": URL, "commit": "abc"}, "is not a whole commit id"),
        ({"url": URL, "version": "newest"}, "'newest' is not a range of versions"),
        ({"url": URL, "subdirectory": "../x"}, "source.subdirectory"),
        ({"url": URL, "subdirectory": "-x/../../y"}, "source.subdirectory"),
        ({"url": URL, "depth": 1}, "unknown field `depth`"),
    ],
)
async def test_what_git_must_not_be_given_is_refused_in_words(
    application: Application, source: dict[str, Any], words: str
) -> None:
    body = {"path": "m", "source": {"kind": "git"} | source}
    refusal = await application.admin.refused("POST", "/api/v1/modules", 400, json=body)
    assert words in refusal
    assert "hunter2" not in refusal
    made = {"path": "m", "source": {"kind": "git", "url": URL}}
    await application.admin.made("/api/v1/modules", made)
    await application.admin.refused(
        "POST", "/api/v1/modules/m/jobs", 400, json={"type": "PLAN", "source": body["source"]}
    )


@on_one
@pytest.mark.feature("J5.registry")
async def test_a_registry_source_gets_the_registry_of_its_engine_and_is_checked(application: Application) -> None:
    source = {"kind": "registry", "address": "acme/network/aws", "version": "~> 5.0"}
    made = await application.admin.made("/api/v1/modules", {"path": "vpc", "source": source})
    assert made["source"] == source | {"address": "registry.opentofu.org/acme/network/aws", "subdirectory": ""}
    for wrong in ("acme/network", "a/b/c/d/e", "https://host/a/b/c", "-x/a/b/c", "host/a b/c/d", "a/b/C", "a/../b"):
        change = {"source": source | {"address": wrong}}
        words = await application.admin.refused("PATCH", "/api/v1/modules/vpc", 400, json=change)
        assert "is not the address of a module of a registry" in words, wrong
    change = {"source": source | {"version": "newest"}}
    assert "source.version" in await application.admin.refused("PATCH", "/api/v1/modules/vpc", 400, json=change)


@on_one
@pytest.mark.feature("J10.rerun")
async def test_a_job_that_runs_again_keeps_its_own_source_and_otherwise_takes_that_of_the_module(
    application: Application,
) -> None:
    admin = application.admin
    await admin.made("/api/v1/modules", {"path": "m", "source": {"kind": "git", "url": URL, "branch": "main"}})
    own = {"kind": "git", "url": URL, "tag": "v2"}
    first = await admin.made("/api/v1/modules/m/jobs", {"type": "PLAN", "source": own})
    plain = await admin.made("/api/v1/modules/m/jobs", {"type": "PLAN"})
    await admin.patch("/api/v1/modules/m", json={"source": {"kind": "git", "url": URL, "branch": "next"}})
    again = (await admin.post(f"/api/v1/jobs/{first['id']}/rerun")).json()
    assert (again["source"]["tag"], again["source"]["branch"]) == ("v2", "")
    assert (await admin.post(f"/api/v1/jobs/{plain['id']}/rerun")).json()["source"]["branch"] == "next"
