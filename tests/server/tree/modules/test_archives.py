"""An uploaded source is checked and then stored whole, and a refused one leaves nothing behind."""

import hashlib

import pytest

from terracrew.server.tree.modules.archives import MAX_ARCHIVE_BYTES
from tests.server.application import Application, Person, on_one
from tests.server.tree.modules.packed_modules import packed


@pytest.mark.feature("J5.archive")
async def test_an_archive_becomes_the_source_of_a_module(application: Application) -> None:
    content = packed(("main.tf", b'output "a" { value = 1 }\n'))
    answer = await application.admin.post(
        "/api/v1/archives", content=content, headers={"Content-Type": "application/gzip"}
    )
    assert answer.status_code == 201, answer.text
    archive = answer.json()
    assert (archive["sha256"], archive["size"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert await application.server.objects.get(f"archives/{archive['id']}") == content
    source = {"kind": "archive", "archive_id": archive["id"], "sha256": "f" * 64, "size": 1}
    made = await application.admin.made("/api/v1/modules", {"path": "m", "source": source})
    # What the row says counts, not what the client says of it.
    assert made["source"] == {**source, "subdirectory": "", "sha256": archive["sha256"], "size": len(content)}


@on_one
@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (packed(("../../etc/passwd", b"x")), 400, "leaves the folder"),
        (packed(("/etc/passwd", b"x")), 400, "leaves the folder"),
        (packed(("zeros", b"\0" * (64 << 20))), 413, "bomb"),
        (b"no archive at all", 400, "not a complete tar.gz"),
        (packed(("main.tf", b"x" * 100))[:-20], 400, "not a complete tar.gz"),
        (b"", 400, "empty"),
    ],
    ids=["climbing", "absolute", "bomb", "nonsense", "torn", "empty"],
)
async def test_a_harmful_archive_is_refused_and_leaves_nothing(
    application: Application, content: bytes, status: int, words: str
) -> None:
    assert words in await application.admin.refused("POST", "/api/v1/archives", status, content=content)
    assert await application.scalar("SELECT count(*) FROM archives") == 0
    assert list((application.server.settings.directory / "objects").rglob("*")) == []
    assert list(application.server.settings.uploads.iterdir()) == []


@on_one
async def test_an_archive_has_a_largest_size(application: Application) -> None:
    await application.admin.refused("POST", "/api/v1/archives", 413, content=b"\0" * (MAX_ARCHIVE_BYTES + 1))
    assert list(application.server.settings.uploads.iterdir()) == []


@pytest.mark.feature("X3.roles")
async def test_who_may_run_or_change_nothing_may_not_upload(application: Application) -> None:
    await application.admin.made("/api/v1/groups", {"path": "a"})
    content = packed(("main.tf", b""))
    viewer, nobody = await application.person("vera", "viewer"), await application.person("nora")
    await viewer.refused("POST", "/api/v1/archives", 403, content=content)
    await nobody.refused("POST", "/api/v1/archives", 403, content=content)
    operator = await application.person("otto", "operator", "a")
    assert (await operator.post("/api/v1/archives", content=content)).status_code == 201


async def test_another_organization_cannot_use_an_archive(application: Application) -> None:
    archive = (await application.admin.post("/api/v1/archives", content=packed(("main.tf", b"")))).json()
    other = await application.person("mallory", "owner", "", "other")
    body = {"path": "m", "source": {"kind": "archive", "archive_id": archive["id"]}}
    assert "there is no archive" in await other.refused("POST", "/api/v1/modules", 400, json=body)


@pytest.mark.feature("J5.archive", "X3.roles")
async def test_who_only_sees_a_module_cannot_run_its_archive_elsewhere(application: Application) -> None:
    """A viewer of a module, who sees the id of its archive, ran that source in a group of their own, and so read it."""
    admin = application.admin
    for path in ("secret", "own"):
        await admin.made("/api/v1/groups", {"path": path})
    source = await uploaded(admin)
    await admin.made("/api/v1/modules", {"path": "secret/module", "source": source})
    eve = await application.person("eve", "viewer", "secret")
    await admin.made("/api/v1/roles", {"principal": "eve", "role": "owner", "path": "own"})
    seen = (await eve.get("/api/v1/modules/secret%2Fmodule")).json()["source"]
    refused = await eve.refused("POST", "/api/v1/modules", 400, json={"path": "own/copy", "source": seen})
    assert "that you have uploaded, or that a module uses whose jobs you may run" in refused
    own = await uploaded(eve)
    await eve.made("/api/v1/modules", {"path": "own/copy", "source": own})
    assert "you may run" in await eve.refused("PATCH", "/api/v1/modules/own%2Fcopy", 400, json={"source": seen})
    body = {"type": "PLAN", "source": seen}
    assert "you may run" in await eve.refused("POST", "/api/v1/modules/own%2Fcopy/jobs", 400, json=body)
    await admin.made(
        "/api/v1/roles", {"principal": "eve", "role": "operator", "path": "secret/module", "kind": "module"}
    )
    await eve.made("/api/v1/modules/own%2Fcopy/jobs", body)


@pytest.mark.feature("J5.archive")
async def test_an_owner_runs_a_job_again_with_the_archive_that_somebody_else_gave_it(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "own"})
    await admin.made("/api/v1/modules", {"path": "own/module", "source": await uploaded(admin)})
    job = await admin.made("/api/v1/modules/own%2Fmodule/jobs", {"type": "PLAN", "source": await uploaded(admin)})
    olga = await application.person("olga", "owner", "own")
    again = await olga.post(f"/api/v1/jobs/{job['id']}/rerun")
    assert again.status_code in (200, 201), again.text
    assert again.json()["source"] == job["source"]


async def uploaded(who: Person) -> dict[str, str]:
    """A new archive as the source of a module."""
    answer = await who.post("/api/v1/archives", content=packed(("main.tf", b"")))
    assert answer.status_code == 201, answer.text
    return {"kind": "archive", "archive_id": answer.json()["id"]}
