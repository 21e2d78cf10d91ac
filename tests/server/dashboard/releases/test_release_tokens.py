"""Administrators of the server make release tokens, which are shown once, and revoke them; everybody sees the key of releases."""

import re

import pytest

from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in

pytestmark = pytest.mark.feature("P4.pages")
RELEASES = "/dashboard/releases"
HERE = f"{RELEASES}/tokens"


async def test_a_release_token_is_shown_once_listed_and_revoked(application: Application) -> None:
    someone = await logged_in(application)
    assert HERE in await someone.see(RELEASES)
    assert "None." in await someone.see(HERE)
    assert "In 90 days" in await someone.see(f"{HERE}/create")
    made = await someone.submit(f"{HERE}/create", name="ci <b>", days="30")
    assert made.status_code == 200
    [token] = set(re.findall(r"tcr_\w+", made.text))
    assert "ci &lt;b&gt;" in made.text
    page = await someone.see(HERE)
    assert token not in page
    assert "ci &lt;b&gt;" in page
    assert "by admin" in page
    again = await someone.submit(f"{HERE}/create", name="ci <b>", days="30")
    assert again.status_code == 409
    assert "There is a release token named" in again.text
    assert "tcr_" not in again.text
    [token_id] = set(re.findall(r"rtk_\w+", page))
    assert (await someone.submit(f"{HERE}/{token_id}/revoke")).status_code == 303
    assert token_id not in await someone.see(HERE)


@on_one
async def test_a_token_lasts_no_longer_than_asked_and_never_for_ever(application: Application) -> None:
    someone = await logged_in(application)
    await someone.see(f"{HERE}/create")
    assert (await someone.submit(f"{HERE}/create", name="a", days="0")).status_code == 400
    assert (await someone.submit(f"{HERE}/create", name=" ")).status_code == 400
    assert (await someone.submit(f"{HERE}/create", name="a", days="")).status_code == 200
    [listed] = await application.admin.listed("/api/v1/release-tokens")
    assert listed["expires_at"] is not None


async def test_only_administrators_of_the_server_see_and_make_release_tokens(application: Application) -> None:
    await application.person("otto", "owner")
    otto = await logged_in(application, "otto")
    assert HERE not in await otto.see(RELEASES)
    for path in (HERE, f"{HERE}/create"):
        await otto.see(path, 403)
    assert (await otto.submit(f"{HERE}/create", name="ci", days="30")).status_code == 403
    made = await application.admin.made("/api/v1/release-tokens", {"name": "ci"})
    assert (await otto.submit(f"{HERE}/{made['id']}/revoke")).status_code == 403
    assert len(await application.admin.listed("/api/v1/release-tokens")) == 1
