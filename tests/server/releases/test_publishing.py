"""A release is published whole and signed, or not at all, and its files are the ones that were sent."""

import hashlib
from typing import Any

import pytest

from terracrew.protocol.transfers import PART_BYTES
from terracrew.server.releases import checks, store
from terracrew.server.retention import orphans
from terracrew.server.uploads import service as uploads
from tests.builders.clock import ShiftedClock
from tests.server.application import Application, Person, on_one
from tests.server.releases.signed_files import (
    API,
    OTHER_KEY,
    VERSION,
    WHEEL,
    image,
    published,
    publisher,
    relabelled,
    sent,
    sent_in_parts,
    signature,
    wheel,
)

LARGE = bytes(range(256)) * 8192  # 2 MiB
REFERENCE = f"registry.example/terracrew-runner:{VERSION}@sha256:{'ab' * 32}"


@pytest.mark.feature("V1.releases")
async def test_a_release_is_published_with_files_and_images_and_downloaded(releasing: Application) -> None:
    ci = await publisher(releasing)
    upload = await sent_in_parts(ci, LARGE)
    again = await ci.post(f"{API}/releases/{VERSION}/files", headers={"X-Upload": upload})
    assert again.json()["upload"] == upload  # its answer may have been lost
    sums = await sent(ci, b"sums")
    body: dict[str, Any] = {
        "version": VERSION,
        "notes": "# News",
        "commit_id": "0123456789abcdef",
        "link": "https://example.com/releases",
        "released_at": "2026-03-04T05:06:07+01:00",
        "is_breaking": True,
        "breaking_words": "Stop the old one.",
        "artifacts": [
            wheel(LARGE, upload),
            wheel(b"sums", sums, name="SHA256SUMS", kind="checksums", signature=signature(b"sums", "SHA256SUMS")),
            image(REFERENCE),
        ],
    }
    made = await ci.made(f"{API}/releases", body)
    assert (made["published_by_name"], made["released_at"], made["is_breaking"]) == ("ci", "2026-03-04T04:06:07Z", True)
    reader = await releasing.person("reader")
    shown = (await reader.get(f"{API}/releases/{VERSION}")).json()
    assert [(each["name"], each["size_bytes"], each["reference"]) for each in shown["artifacts"]] == [
        ("SHA256SUMS", 4, ""),
        (WHEEL, len(LARGE), ""),
        ("terracrew-runner", 0, REFERENCE),
    ]
    assert "object_name" not in shown["artifacts"][0]
    answer = await reader.get(f"{API}/releases/{VERSION}/artifacts/{WHEEL}")
    assert answer.content == LARGE
    assert answer.headers["ETag"] == f'"{hashlib.sha256(LARGE).hexdigest()}"'
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{WHEEL}"'
    words = await reader.refused("GET", f"{API}/releases/{VERSION}/artifacts/terracrew-runner", 404)
    assert f"pull {REFERENCE}" in words
    await reader.refused("GET", f"{API}/releases/{VERSION}/artifacts/..%2F{WHEEL}", 404)
    await reader.refused("GET", f"{API}/releases/0.9.9/artifacts/{WHEEL}", 404)
    words = await ci.refused("POST", f"{API}/releases", 409, json=body)
    assert "publish another version" in words
    await ci.refused("POST", f"{API}/releases/{VERSION}/files", 409, content=b"late")
    await ci.refused("PUT", f"{API}/uploads", 409, json={"target": f"release {VERSION}", "sha256": "0" * 64, "size": 9})


@on_one
@pytest.mark.feature("V1.signature")
async def test_what_is_not_signed_by_the_key_for_this_file_and_version_is_refused(releasing: Application) -> None:
    admin, content = releasing.admin, b"a wheel"
    upload = await sent(admin, content)
    image_of_other = image(REFERENCE, signature=image(REFERENCE.replace("ab", "cd"))["signature"])
    cases: list[tuple[dict[str, Any], str]] = [
        (wheel(content, upload, sha256="0" * 64), "its SHA-256 is"),
        (wheel(content, upload, signature=signature(b"another")), "does not fit the content"),
        (wheel(content, upload, signature=signature(content, key=OTHER_KEY)), "was made with key"),
        (wheel(content, upload, signature=signature(content, version="0.1.0-rc.1")), "not for 'terracrew 0.1.0-rc.2"),
        (wheel(content, upload, signature=signature(content, name="other.whl")), "The signature is for"),
        (wheel(content, upload, signature=relabelled(signature(content))), "covers the whole file instead of its hash"),
        (wheel(content, upload, signature="nothing"), "not a signature of minisign"),
        (wheel(content, upload, signature="x" * 20_000), "at most 16,384 characters"),
        (wheel(content, "upl_" + "0" * 32), "send the file again"),
        (wheel(content, "../../etc/passwd"), "send the file again"),
        (wheel(content, ""), "has an upload and its SHA-256"),
        (wheel(content, upload, reference=REFERENCE), "and no reference"),
        (image_of_other, "terracrew-runner.image: The signature does not fit"),
        (image(REFERENCE, upload=upload), "neither a file nor its hash"),
        (image("registry.example/terracrew-runner:1.0"), "is not the reference of an image with its digest"),
        (image(f"{REFERENCE} --privileged"), "is not the reference of an image with its digest"),
    ]
    for artifact, words in cases:
        answer = await admin.post(f"{API}/releases", json={"version": VERSION, "artifacts": [artifact]})
        assert answer.status_code in (400, 409, 413), artifact
        assert words in answer.json()["detail"], artifact
    assert await releasing.server.db.read(store.versions) == []
    await admin.made(f"{API}/releases", {"version": VERSION, "artifacts": [wheel(content, upload), image(REFERENCE)]})


@on_one
@pytest.mark.parametrize(
    "name", ["", "a/b.whl", "..", ".hidden", "a\\b", "a b", "a\nb", "ä.whl", "a\x00", "%2e%2e", 'a"b', "x" * 201]
)
async def test_the_name_of_an_artifact_is_that_of_a_file_in_one_folder(releasing: Application, name: str) -> None:
    content = b"a wheel"
    upload = await sent(releasing.admin, content)
    body = {"version": VERSION, "artifacts": [wheel(content, upload, name=name)]}
    await releasing.admin.refused("POST", f"{API}/releases", 400, json=body)


@on_one
@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"version": "1.0"}, "is not a semantic version"),
        ({"min_server_version": "newest"}, "min_server_version: 'newest' is not a semantic version"),
        ({"is_breaking": True}, "says what to do before"),
        ({"breaking_words": "x"}, "says what to do before"),
        ({"commit_id": "HEAD; rm"}, "is not a commit"),
        ({"link": "javascript:alert(1)"}, "is not an address"),
        ({"link": 'https://x"onclick='}, "is not an address"),
        ({"notes": "x" * 100_001}, "100,001 characters are too many"),
        ({"released_at": "2026-03-04T05:06:07"}, "released_at"),
        ({"unknown": 1}, "unknown"),
        ({"artifacts": [image(REFERENCE)] * 2}, "is named twice"),
        ({"artifacts": [image(REFERENCE)] * 101}, "101 are too many"),
    ],
)
async def test_what_is_wrong_with_a_release_is_said_with_its_field(
    releasing: Application, changed: dict[str, Any], words: str
) -> None:
    found = await releasing.admin.refused("POST", f"{API}/releases", 400, json={"version": VERSION, **changed})
    assert words in found


@on_one
@pytest.mark.feature("V1.signature")
async def test_a_server_without_a_key_takes_releases_without_artifacts_only(application: Application) -> None:
    upload = await sent(application.admin, b"a wheel")
    body: dict[str, Any] = {"version": VERSION, "artifacts": [wheel(b"a wheel", upload)]}
    words = await application.admin.refused("POST", f"{API}/releases", 409, json=body)
    assert "has no release_key" in words
    ci = await publisher(application)  # whoever steals its token cannot make every runner outdated
    assert "only releases with signed" in await ci.refused("POST", f"{API}/releases", 403, json={"version": "9.0.0"})
    await application.admin.made(f"{API}/releases", {"version": VERSION})
    assert (await application.admin.get(f"{API}/releases/key")).json() == {"key": ""}


@pytest.mark.feature("V1.rights")
async def test_a_release_token_does_not_fill_the_object_store(
    releasing: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "MAX_SENT_FILES", 3)
    ci, address = await publisher(releasing), f"{API}/releases/{VERSION}/files"
    first = await sent(ci, b"0")
    for _ in range(3):
        assert await sent(ci, b"0") == first
    assert len(await releasing.server.objects.names("releases")) == 1  # repetitions take no room
    await sent(ci, b"1", "0.1.0-rc.3")
    await sent(ci, b"2", "0.1.0-rc.4")
    assert "at most 3 files" in await ci.refused("POST", address, 409, content=b"3")
    wanted = {"target": f"release {VERSION}", "sha256": hashlib.sha256(b"4").hexdigest(), "size": 1}
    staged = (await ci.put(f"{API}/uploads", json=wanted)).json()["id"]
    await ci.put(f"{API}/uploads/{staged}/0", content=b"4")
    await ci.refused("POST", address, 409, headers={"X-Upload": staged})
    monkeypatch.setattr(checks, "MAX_SENT_FILES", 100)
    monkeypatch.setattr(checks, "MAX_SENT_BYTES", 3)
    assert "at most 100 files with 3 bytes" in await ci.refused("POST", address, 409, content=b"3")
    await sent(await publisher(releasing, "other"), b"3")  # each has room of its own


@pytest.mark.feature("V1.releases")
async def test_files_of_a_release_that_was_never_published_are_removed_and_others_stay(
    releasing: Application, clock: ShiftedClock
) -> None:
    """The times of objects are those of this machine, so the grace period is shortened instead."""
    server, admin = releasing.server, releasing.admin
    await published(admin, LARGE[:PART_BYTES])
    kept = await server.objects.names("releases")
    await sent(admin, b"abandoned", "0.9.0")

    async def swept() -> set[str]:
        await orphans.sweep(server.db, server.objects, 0, grace_seconds=-60)
        return set(await server.objects.names("releases"))

    assert len(await swept()) == 2
    clock.advance(uploads.UNUSED_SECONDS + 60)
    assert await uploads.sweep(server.db, server.objects) == 2
    assert await swept() == set(kept)
    assert (await admin.get(f"{API}/releases/{VERSION}/artifacts/{WHEEL}")).content == LARGE[:PART_BYTES]


@on_one
async def test_a_file_that_somebody_else_sent_or_for_another_version_is_not_used(releasing: Application) -> None:
    first, second = await publisher(releasing, "a"), await publisher(releasing, "b")
    content = b"a wheel"
    upload = await sent(first, content)
    for person, version in ((second, VERSION), (first, "0.1.0-rc.3")):
        artifact = wheel(content, upload, signature=signature(content, version=version))
        body = {"version": version, "artifacts": [artifact]}
        assert "send the file again" in await person.refused("POST", f"{API}/releases", 409, json=body)


@on_one
@pytest.mark.feature("V1.releases")
@pytest.mark.parametrize(
    ("asked", "status", "part"),
    [
        ("bytes=0-", 206, slice(0, None)),
        ("bytes=100-", 206, slice(100, None)),
        ("bytes=100-199", 206, slice(100, 200)),
        ("bytes=2097151-", 206, slice(2097151, None)),
        ("bytes=-10", 206, slice(-10, None)),
        ("bytes=-99999999", 206, slice(0, None)),
        ("bytes=5-99999999", 206, slice(5, None)),
        ("bytes=2097152-", 416, slice(0, 0)),
        ("bytes=-0", 416, slice(0, 0)),
        ("bytes=9-5", 200, slice(0, None)),
        ("bytes=0-1,5-6", 200, slice(0, None)),
        ("rows=1-2", 200, slice(0, None)),
        ("bytes=-", 200, slice(0, None)),
    ],
)
async def test_a_download_that_broke_off_can_be_continued(
    downloads: Person, asked: str, status: int, part: slice
) -> None:
    path = f"{API}/releases/{VERSION}/artifacts/{WHEEL}"
    answer = await downloads.get(path, headers={"Range": asked})
    assert (answer.status_code, answer.content) == (status, LARGE[part])
    if status == 206:
        start = range(len(LARGE))[part].start
        assert answer.headers["Content-Range"] == f"bytes {start}-{start + len(answer.content) - 1}/{len(LARGE)}"
        other = await downloads.get(path, headers={"Range": asked, "If-Range": '"another"'})
        assert (other.status_code, len(other.content)) == (200, len(LARGE))
        same = await downloads.get(path, headers={"Range": asked, "If-Range": answer.headers["ETag"]})
        assert same.status_code == 206


@pytest.fixture
async def downloads(releasing: Application) -> Person:
    """Somebody who can download a release with a large file."""
    upload = await sent_in_parts(releasing.admin, LARGE)
    await releasing.admin.made(f"{API}/releases", {"version": VERSION, "artifacts": [wheel(LARGE, upload)]})
    return releasing.admin
