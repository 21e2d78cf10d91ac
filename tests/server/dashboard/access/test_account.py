"""People change their password, and end their sessions, on the account page."""

import re

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor


async def logged_in_twice(application: Application) -> tuple[Visitor, Visitor]:
    """Return two sessions of the administrator, in two browsers."""
    first, second = await logged_in(application), visitor(application)
    answer = await second.submit("/login", name="admin", password="correct horse battery")
    assert answer.status_code == 303, answer.text
    return first, second


async def test_a_new_password_is_refused_with_a_reason_or_ends_everything_else(application: Application) -> None:
    other, someone = await logged_in_twice(application)
    await someone.see("/dashboard/account")
    fields = {"current": "correct horse battery", "password": "another long password"}
    differs = await someone.submit("/dashboard/account/password", **fields, again="something else entirely")
    assert (differs.status_code, "The two passwords are not the same" in differs.text) == (400, True)
    changed = await someone.submit("/dashboard/account/password", **fields, again="another long password")
    assert changed.status_code == 200
    assert re.search(r"Your password is changed\. Ended: \d+ other sessions?, \d+ API tokens?\.", changed.text)
    assert (await other.get("/dashboard/account")).status_code == 303
    assert "this one" in await someone.see("/dashboard/account")


async def test_another_session_is_ended_from_the_page(application: Application) -> None:
    other, someone = await logged_in_twice(application)
    page = await someone.see("/dashboard/account")
    ends = re.findall(r'action="(/dashboard/account/sessions/ses_\w+/end)"', page)
    for path in ends:
        assert (await someone.submit(path)).status_code == 303
    assert ends
    assert (await other.get("/dashboard/account")).status_code == 303
    assert "/end" not in await someone.see("/dashboard/account")


@pytest.mark.feature("U6.access")
async def test_a_token_is_created_shown_once_and_revoked(application: Application) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/account/tokens/create")
    shown = (await someone.submit("/dashboard/account/tokens/create", name="laptop", days="30")).text
    token = re.search(r'id="token-value"[^>]*>(tcu_[\w-]+)<', shown)
    assert token is not None
    script = application.stranger()
    script.headers["Authorization"] = f"Bearer {token[1]}"
    assert (await script.get("/api/v1/me")).json()["name"] == "admin"
    again = await someone.submit("/dashboard/account/tokens/create", name="laptop")
    assert "You have a token named" in again.text
    for fields in ({"name": ""}, {"name": "x" * 101}, {"name": "a\x07"}, {"name": "x", "days": "99999"}):
        assert 'role="alert"' in (await someone.submit("/dashboard/account/tokens/create", **fields)).text
    page = await someone.see("/dashboard/account")
    assert token[1] not in page
    row = next(each for each in page.split("<tr>") if ">laptop<" in each)
    revoke = re.search(r'action="(/dashboard/account/tokens/tok_\w+/revoke)"', row)
    assert revoke is not None
    assert (await someone.submit(revoke[1])).status_code == 303
    assert (await script.get("/api/v1/me")).status_code == 401
