"""The pages of connections to forges: one is added by its kind or as an application of GitHub, tested, changed and deleted."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from terracrew.server.forges import store
from terracrew.server.forges.polling import ForgePolling
from tests.builders.clock import ShiftedClock
from tests.forges import fake_forge
from tests.forges.fake_forge import COMMENTS, OWNER_TOKEN
from tests.forges.fake_github import APP_ID, PRIVATE_KEY, FakeGitHub
from tests.server.application import Application, on_one, open_application
from tests.server.dashboard.visitor import Visitor, logged_in

HERE = "/dashboard/forges"
pytestmark = [on_one, pytest.mark.feature("F1.connections")]


@pytest.fixture
async def application(
    database_url: str, memory_path: Path, database_clock: ShiftedClock | None
) -> AsyncIterator[Application]:
    """A server that may ask forges on this machine."""
    settings: dict[str, Any] = {"private_destinations": ["127.0.0.1"]}
    async with open_application(database_url, memory_path / "data", clock=database_clock, **settings) as opened:
        yield opened


@pytest.fixture
async def fake() -> AsyncIterator[FakeGitHub]:
    async with fake_forge.running(FakeGitHub()) as running:
        running.repository()
        yield running


async def added(someone: Visitor, fake: FakeGitHub, **given: str) -> str:
    """Add a connection, and return the address of its page."""
    await someone.see(f"{HERE}/create?kind=github")
    form = {"form": "github", "name": "git", "base_url": fake.url, "token": OWNER_TOKEN, "makes_hooks": "true"}
    answer = await someone.submit(f"{HERE}/create", **(form | given))
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def test_a_connection_is_added_on_the_page_of_a_group_and_tested(
    application: Application, fake: FakeGitHub
) -> None:
    await application.admin.made("/api/v1/groups", {"path": "team"})
    someone = await logged_in(application)
    page = await someone.see("/dashboard/groups/team")
    assert "No connection to a forge serves the modules here." in page
    assert f"{HERE}/create?group=team" in page
    page = await someone.see(f"{HERE}/create?group=team")
    assert f"{HERE}/create?group=team&amp;kind=gitea" in page
    address = await added(someone, fake, group="team")
    for listed in (HERE, "/dashboard/groups/team"):
        assert address in await someone.see(listed)
    page = await someone.see(address)
    assert "Not used yet" in page
    assert OWNER_TOKEN not in page
    answer = await someone.submit(f"{address}/repositories", name="acme/network")
    assert answer.status_code == 303
    await ForgePolling(application.server.db, application.server.forges, "srv", 60.0, "http://127.0.0.1/hooks").step()
    fake.tokens["limited"] = fake_forge.FakeUser("bot", 9, fake_forge.EVERYTHING - {COMMENTS})
    answer = await someone.submit(address, token="limited")
    assert answer.status_code == 303, answer.text
    answer = await someone.submit(f"{address}/test")
    assert "Something is missing." in answer.text
    assert "Permission missing" in answer.text
    assert "Issues: write" in answer.text
    activity = await someone.see(f"{address}/activity")
    for part in ("acme/network", "Hook enabled", "Nothing was delivered"):
        assert part in activity


async def test_mistakes_are_beside_their_fields_and_secrets_are_kept(
    application: Application, fake: FakeGitHub
) -> None:
    someone = await logged_in(application)
    for kind, given, field, words in (
        ("github", {"token": ""}, "token", "The token is missing"),
        ("gitea", {"base_url": ""}, "base_url", "The address of the forge is missing"),
        ("gitea", {"base_url": "https://evil;script-src"}, "base_url", "no valid name of a host"),
        ("github-app", {"app_id": "12", "private_key": "x"}, "private_key", "not an RSA key"),
        ("github", {"name": "a b"}, "name", "not a valid name"),
    ):
        await someone.see(f"{HERE}/create?kind={kind}")
        form = {"form": kind, "name": "git", "base_url": fake.url, "token": OWNER_TOKEN}
        answer = await someone.submit(f"{HERE}/create", **(form | given))
        assert words in answer.text, (kind, given)
        assert f'id="{field.replace("_", "-")}-wrong"' in answer.text or field == "name"
    address = await added(someone, fake)
    await someone.see(address)
    assert (await someone.submit(address, name="other", token="")).status_code == 303
    [kept] = await application.server.db.read(store.everything)
    assert (kept.name, application.server.forges.credential(kept).token) == ("other", OWNER_TOKEN)
    answer = await someone.submit(f"{address}/hook-secret")
    [secret] = re.findall(r'id="hook-secret" tabindex="0">([\w-]+)<', answer.text)
    assert secret not in await someone.see(address)
    assert (await someone.submit(f"{address}/delete")).headers["location"] == HERE
    assert "No connections yet" in await someone.see(HERE)


async def test_what_is_wrong_and_what_was_delivered_is_shown(application: Application, fake: FakeGitHub) -> None:
    someone = await logged_in(application)
    address = await added(someone, fake, token="revoked")
    await someone.submit(f"{address}/repositories", name="acme/network")
    polling = ForgePolling(application.server.db, application.server.forges, "srv", 60.0, "http://127.0.0.1/hooks")
    await polling.step()
    page = await someone.see(address)
    for part in ("Failing", "does not accept the token", "It is tried again in"):
        assert part in page
    await someone.submit(address, token=OWNER_TOKEN)
    await polling.step()
    assert "Failing" not in await someone.see(address)
    [delivery] = _delivered(fake)
    answer = await application.stranger().post(f"/hooks/{address.rpartition('/')[2]}", **delivery)
    assert answer.status_code == 202
    page = await someone.see(address)
    assert "acme/network, pull request" in page
    [again] = re.findall(rf'action="({address}/deliveries/\w+/handle-again)"', page)
    assert (await someone.submit(again)).status_code == 303
    [repair] = re.findall(rf'action="({address}/repositories/\w+/hook)"', page)
    assert (await someone.submit(repair)).status_code == 303
    [remove] = re.findall(rf'action="({address}/repositories/\w+/remove)"', page)
    assert (await someone.submit(remove)).status_code == 303
    assert "It watches no repository yet" in await someone.see(address)


def _delivered(fake: FakeGitHub) -> list[dict[str, Any]]:
    fake.open(fake.repositories["acme/network"], "feature")
    return [{"content": each.body, "headers": each.headers} for each in fake.deliveries]


@pytest.mark.feature("P4.pages")
async def test_people_of_the_forge_are_linked_to_users_and_unlinked(application: Application, fake: FakeGitHub) -> None:
    await application.admin.made("/api/v1/groups", {"path": "team"})
    await application.person("ada", "operator")
    someone = await logged_in(application)
    address = await added(someone, fake, group="team")
    page = await someone.see(address)
    assert "Nobody on the forge is a user here yet" in page
    assert '<option value="ada">' in page, "names are offered"
    form = {"forge_user": "<i>ada", "user": "ada", "forge_user_id": "4711/x"}
    assert (await someone.submit(f"{address}/users", **form)).status_code == 303
    for where in (address, f"{address}/activity"):
        page = await someone.see(where)
        assert "&lt;i&gt;ada" in page
        assert 'name="forge_user_id" value="4711/x"' in page
    unknown = await someone.submit(f"{address}/users", **(form | {"user": "nobody"}))
    assert unknown.status_code == 400
    assert "There is no user" in unknown.text or "there is no user" in unknown.text

    ada = await logged_in(application, "ada")
    page = await ada.see(address)
    assert "&lt;i&gt;ada" in page
    assert "/users" not in page.replace("/dashboard/users", ""), "only those who manage access link people"
    for path in (f"{address}/users", f"{address}/users/unlink"):
        assert (await ada.submit(path, **form)).status_code == 403
    assert (await someone.submit(f"{address}/users/unlink", forge_user_id="4711/x")).status_code == 303
    assert "Nobody on the forge is a user here yet" in await someone.see(address)
    assert (await someone.submit(f"{address}/users/unlink", forge_user_id="4711/x")).status_code == 404
    entries = [each["action"] for each in await application.admin.listed("/api/v1/audit")]
    assert {"forge.link_user", "forge.unlink_user"} <= set(entries)


async def test_a_viewer_sees_a_connection_and_changes_nothing(application: Application, fake: FakeGitHub) -> None:
    address = await added(await logged_in(application), fake)
    await application.person("vera", "viewer")
    viewer = await logged_in(application, "vera")
    page = await viewer.see(address)
    for part in ("Test</button>", "Delete this connection", "Add a repository", "Make a secret"):
        assert part not in page
    assert f"{HERE}/create" not in await viewer.see(HERE)
    for path in (address, f"{address}/test", f"{address}/hook-secret", f"{address}/delete"):
        assert (await viewer.submit(path, token="mine", name="mine")).status_code == 403
    for path in (f"{HERE}/create?kind=github", f"{HERE}/create/github"):
        await viewer.see(path, 403)


class Manifest(msgspec.Struct):
    name: str
    url: str
    redirect_url: str
    hook_attributes: dict[str, Any]
    default_permissions: dict[str, str]


async def begun(someone: Visitor, fake: FakeGitHub, name: str = "app") -> tuple[str, Manifest, str]:
    """Ask for an application; return where the browser posts the manifest, the manifest, and the policy of that page."""
    await someone.see(f"{HERE}/create/github")
    asked = {"name": name, "base_url": fake.url, "organization": "acme", "group": ""}
    answer = await someone.submit(f"{HERE}/create/github", **asked)
    assert answer.status_code == 200, answer.text
    [target] = re.findall(rf'action="({re.escape(fake.url)}[^"]+)"', answer.text)
    [text] = re.findall(r'name="manifest" value="([^"]+)"', answer.text)
    manifest = msgspec.json.decode(html.unescape(text), type=Manifest)
    return html.unescape(target), manifest, answer.headers["content-security-policy"]


async def test_an_application_of_github_is_made_by_its_manifest(application: Application, fake: FakeGitHub) -> None:
    someone = await logged_in(application)
    target, manifest, rules = await begun(someone, fake)
    assert f"form-action 'self' {fake.url};" in rules
    assert "form-action 'self';" in (await someone.get(HERE)).headers["content-security-policy"]
    assert urlsplit(target).path == "/organizations/acme/settings/apps/new"
    assert manifest.default_permissions["statuses"] == "write"
    [state] = parse_qs(urlsplit(target).query)["state"]
    fake.codes["c0de"] = {"id": APP_ID, "slug": "x", "pem": PRIVATE_KEY, "webhook_secret": "of-github"}
    back = f"{urlsplit(manifest.redirect_url).path}?code=c0de&state={state}"
    page = await someone.see(back)
    assert "GitHub has made the application" in page
    assert await application.server.db.read(store.everything) == []  # following a link changes nothing
    answer = await someone.submit(urlsplit(manifest.redirect_url).path, state=state, code="c0de")
    assert answer.status_code == 303, answer.text
    [made] = await application.server.db.read(store.everything)
    assert manifest.hook_attributes["url"].endswith(f"/hooks/{made.id}")
    credential = application.server.forges.credential(made)
    assert (made.app_id, credential.hook_secret, credential.private_key) == (
        str(APP_ID),
        "of-github",
        PRIVATE_KEY.strip(),
    )
    assert "PRIVATE" not in await someone.see(f"{HERE}/{made.id}")
    again = await someone.submit(urlsplit(manifest.redirect_url).path, state=state, code="c0de")
    assert again.status_code in (400, 409)


async def test_nobody_finishes_the_application_of_somebody_else_or_of_yesterday(
    application: Application, fake: FakeGitHub
) -> None:
    someone = await logged_in(application)
    target, manifest, _ = await begun(someone, fake)
    [state] = parse_qs(urlsplit(target).query)["state"]
    path = urlsplit(manifest.redirect_url).path
    await application.person("olga", "owner")
    other = await logged_in(application, "olga")
    await other.see(f"{path}?code=c0de&state={state}", 403)
    assert (await other.submit(path, state=state, code="c0de")).status_code == 403
    for wrong in ("", "x", state[:-8] + "AAAAAAA=", "%00"):
        assert (await someone.submit(path, state=wrong, code="c0de")).status_code == 400
    assert (await someone.submit(path, state=state, code="../x")).status_code == 400
    assert fake.asked == {}
    assert (await someone.submit(path, state=state, code="unknown")).status_code in (404, 409)
    assert await application.server.db.read(store.everything) == []
