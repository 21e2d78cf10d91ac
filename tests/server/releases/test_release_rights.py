"""Who may do what with releases: a release token publishes and can do nothing else, and runners fetch files."""

import re

import pytest

from tests.builders.clock import ShiftedClock
from tests.server.application import Application, Person, on_one
from tests.server.releases.signed_files import API, VERSION, WHEEL, published, publisher

PUBLISHING = {
    "POST /api/v1/releases",
    "POST /api/v1/releases/{release}/files",
    "PUT /api/v1/uploads",
    "PUT /api/v1/uploads/{upload}/{index}",
}


async def runner_client(application: Application) -> Person:
    """A runner with its access token, as its process has it."""
    made = await application.admin.made(f"{API}/runners/register", {"name": "r"})
    person = application.stranger()
    form = {
        "grant_type": "client_credentials",
        "client_id": made["worker_id"],
        "client_secret": made["worker_token"],
    }
    answer = await person.post("/connect/token", data=form)
    person.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return person


@pytest.mark.feature("V1.rights", "X2.enforced")
async def test_a_release_token_is_refused_by_everything_but_publishing(releasing: Application) -> None:
    ci = await publisher(releasing)
    document = (await releasing.admin.get("/openapi.json")).json()
    tried = 0
    for path, methods in document["paths"].items():
        for method in methods:
            if f"{method.upper()} {path}" in PUBLISHING:
                continue
            answer = await ci.request(method, re.sub(r"\{[^}]+\}", "1", path))
            assert answer.status_code == 403, f"{method} {path}: {answer.text}"
            assert "can publish releases, and nothing else" in answer.json()["detail"]
            tried += 1
    assert tried > 150
    for path in ("/dashboard", "/", "/metrics", "/readyz", f"/runnerhub/releases/{VERSION}/{WHEEL}"):
        assert (await ci.get(path)).status_code in (200, 302, 303, 403)
    for body in (
        {"target": "archive", "sha256": "0" * 64, "size": 9},
        {"target": "state", "sha256": "0" * 64, "size": 9},
    ):
        await ci.refused("PUT", f"{API}/uploads", 403, json=body)


@pytest.mark.feature("V1.rights")
async def test_release_tokens_are_listed_with_their_last_use_and_end(
    releasing: Application, clock: ShiftedClock
) -> None:
    admin = releasing.admin
    ci = await publisher(releasing)
    (listed,) = await admin.listed(f"{API}/release-tokens")
    assert (listed["name"], listed["created_by_name"], listed["last_used_at"]) == ("ci", "admin", None)
    assert not any("tcr_" in str(value) or "token" in name for name, value in listed.items())
    words = await ci.refused("POST", f"{API}/releases", 403, json={"version": VERSION})
    assert "only releases with signed artifacts" in words
    await published(ci)
    (listed,) = await admin.listed(f"{API}/release-tokens")
    assert listed["last_used_at"] is not None
    words = await admin.refused("POST", f"{API}/release-tokens", 409, json={"name": "ci"})
    assert "named 'ci' already" in words
    await admin.request("DELETE", f"{API}/release-tokens/{listed['id']}")
    await ci.refused("POST", f"{API}/releases", 401, json={"version": "0.1.0-rc.2"})
    await admin.refused("DELETE", f"{API}/release-tokens/{listed['id']}", 404)
    short = await admin.made(f"{API}/release-tokens", {"name": "short", "expires_in_days": 1})
    ci.headers["Authorization"] = f"Bearer {short['token']}"
    assert (await ci.post(f"{API}/releases/0.1.0-rc.3/files", content=b"x")).status_code == 201
    clock.advance(86400 + 60)
    await ci.refused("POST", f"{API}/releases/0.1.0-rc.3/files", 401, content=b"x")


@on_one
@pytest.mark.feature("V1.rights")
async def test_only_administrators_of_the_server_publish_withdraw_and_make_tokens(releasing: Application) -> None:
    owner = await releasing.person("owner", "owner")
    await published(releasing.admin)
    for method, path, body in (
        ("POST", "/releases", {"version": "9.0.0"}),
        ("POST", "/releases/9.0.0/files", None),
        ("PUT", "/uploads", {"target": "release 9.0.0", "sha256": "0" * 64, "size": 9}),
        ("POST", f"/releases/{VERSION}/withdraw", {"reason": "x"}),
        ("GET", "/release-tokens", None),
        ("POST", "/release-tokens", {"name": "mine"}),
        ("DELETE", "/release-tokens/rtk_" + "0" * 32, None),
    ):
        words = await owner.refused(method, API + path, 403, **({} if body is None else {"json": body}))
        assert "only an administrator of the server may" in words
    assert (await owner.get(f"{API}/releases/{VERSION}")).status_code == 200
    await releasing.stranger().refused("GET", f"{API}/releases", 401)


@pytest.mark.feature("V1.releases", "V1.withdraw")
async def test_a_runner_fetches_files_of_releases_until_they_are_withdrawn(releasing: Application) -> None:
    await published(releasing.admin, b"a wheel")
    runner = await runner_client(releasing)
    path = f"/runnerhub/releases/{VERSION}/{WHEEL}"
    answer = await runner.get(path, headers={"Range": "bytes=2-"})
    assert (answer.status_code, answer.content) == (206, b"wheel")
    await releasing.stranger().refused("GET", path, 401)
    await runner.refused("GET", f"/runnerhub/releases/{VERSION}/other.whl", 404)
    done = await releasing.admin.post(f"{API}/releases/{VERSION}/withdraw", json={"reason": "it does not start"})
    assert (done.json()["withdrawn_reason"], done.json()["is_latest"]) == ("it does not start", False)
    words = await runner.refused("GET", path, 409)
    assert words == f"the release {VERSION} was withdrawn: it does not start"
    assert (await releasing.admin.get(f"{API}/releases/{VERSION}/artifacts/{WHEEL}")).content == b"a wheel"


@pytest.mark.feature("V1.latest", "V4.notes")
async def test_releases_and_their_notes_are_listed_from_the_highest_version_page_by_page(
    application: Application,
) -> None:
    versions = ["0.1.0-rc.2", "0.1.0-rc.10", "0.0.1", "0.1.0-rc.9"]
    for each in versions:
        await application.admin.made(f"{API}/releases", {"version": each, "notes": f"*{each}*"})
    reader = await application.person("reader")
    listed = await reader.listed(f"{API}/releases", limit=3)
    assert [each["version"] for each in listed] == ["0.1.0-rc.10", "0.1.0-rc.9", "0.1.0-rc.2", "0.0.1"]
    notes = await reader.listed(f"{API}/releases/notes", since="0.0.1", until="0.1.0-rc.9", limit=1)
    assert [(each["version"], each["notes"]) for each in notes] == [
        ("0.1.0-rc.9", "*0.1.0-rc.9*"),
        ("0.1.0-rc.2", "*0.1.0-rc.2*"),
    ]
    await reader.refused("GET", f"{API}/releases/notes", 400, params={"since": "yesterday"})
    await reader.refused("GET", f"{API}/releases/1.2.3", 404)
