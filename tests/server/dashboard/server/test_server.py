"""The pages of the server: its administrators hold it, change its master key, and see what is stored and the issuer of tokens."""

import pytest

from terracrew.api.operations import RekeyProgress
from terracrew.server.db import lease
from terracrew.server.rekey import key_holders, progress
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("P4.pages")
HERE = "/dashboard/server"


async def actions(application: Application) -> list[str]:
    """What the audit log says that the administrator has done to the server."""
    entries = await application.admin.listed("/api/v1/audit")
    return [each["action"] for each in entries if each["action"].startswith("server.")]


async def test_only_administrators_of_the_server_see_and_change_it(application: Application) -> None:
    await application.person("otto", "owner")
    otto = await logged_in(application, "otto")
    assert HERE not in await otto.see("/dashboard/groups")
    for path in (HERE, f"{HERE}/storage", f"{HERE}/issuer"):
        await otto.see(path, 403)
    for path in (f"{HERE}/hold", f"{HERE}/rekey", f"{HERE}/rekey/stop"):
        assert (await otto.submit(path)).status_code == 403, path
    assert await actions(application) == []
    assert HERE in await (await logged_in(application)).see("/dashboard/groups")


async def test_an_administrator_holds_the_server_with_a_reason(application: Application) -> None:
    someone = await logged_in(application)
    assert "This server hands out changes." in await someone.see(HERE)
    assert (await someone.submit(f"{HERE}/hold", reason="<b>failover</b>")).status_code == 303
    page = await someone.see(HERE)
    assert "admin asked for it: &lt;b&gt;failover&lt;/b&gt;" in page.replace("Admin", "admin")
    assert "is not held" not in await someone.see("/dashboard/hold")
    again = await someone.submit(f"{HERE}/hold")
    assert again.status_code == 409
    assert "held already" in again.text
    assert await actions(application) == ["server.hold"]


async def test_a_form_without_its_token_holds_nothing(application: Application) -> None:
    someone = await logged_in(application)
    assert (await someone.submit(f"{HERE}/hold")).status_code == 403, "no page was seen, so no token is known"
    assert "This server hands out changes." in await someone.see(HERE)


async def saved(application: Application, found: RekeyProgress) -> None:
    await application.server.db.write(lambda tx: progress.save(tx, found))


async def test_the_encryption_under_a_new_key_is_started_shown_and_stopped(application: Application) -> None:
    someone, key = await logged_in(application), application.server.keys.key_id
    page = await someone.see(HERE)
    assert "Never changed" in page
    assert "Encrypt everything again…" in page
    assert (await someone.submit(f"{HERE}/rekey")).status_code == 303
    page = await someone.see(HERE)
    assert 'data-every="1"' in page, "progress is shown at once"
    assert "waits for a server to begin" in page
    await saved(application, RekeyProgress("running", key, "states", 1234, 17))
    page = await someone.see(HERE)
    assert "1,234 checked" in page
    assert (await someone.submit(f"{HERE}/rekey/stop")).status_code == 303
    page = await someone.see(HERE)
    assert "Stopped" in page
    assert "Continue…" in page
    assert 'data-every="1"' not in page
    assert sorted(await actions(application)) == ["server.rekey", "server.stop_rekey"]


async def test_what_is_left_to_do_about_a_key_is_said(application: Application) -> None:
    someone, key = await logged_in(application), application.server.keys.key_id
    await saved(application, RekeyProgress("incomplete", key, failed=2, problem="the key <b>99</b> is missing"))
    page = await someone.see(HERE)
    assert "The key &lt;b&gt;99&lt;/b&gt; is missing" in page
    assert "Keep all keys" in page
    await saved(application, RekeyProgress("finished", key, encrypted=5))
    assert "Older ones can be removed" in await someone.see(HERE)
    await saved(application, RekeyProgress("finished", "99", encrypted=5))
    page = await someone.see(HERE)
    assert "Older key in use" in page
    assert "Older ones can be removed" not in page


async def test_no_encryption_starts_while_a_server_has_another_key(application: Application) -> None:
    await lease.acquire(application.server.db, f"{key_holders.LEASE_PREFIX}srv_other", "99", 60.0)
    someone = await logged_in(application)
    await someone.see(HERE)
    answer = await someone.submit(f"{HERE}/rekey")
    assert answer.status_code == 409
    assert "srv_other (master key 99)" in answer.text
    assert await actions(application) == []


async def counted(someone: Visitor) -> str:
    """Return the page of what is stored, after it was counted."""
    while 'id="counting"' in (page := await someone.see(f"{HERE}/storage")):
        assert 'data-every="1"' in page, "it is asked for again"
    return page


async def test_what_is_stored_and_what_retention_would_remove_is_shown(
    application: Application, jobs: dict[str, str]
) -> None:
    page = await counted(await logged_in(application))
    assert "data-every" not in page, "nothing is counted again by itself"
    assert "Logs in rows" in page
    assert "payments/prod/ledger" in page
    assert "kept </span>forever, at least 10 of each module" in page
    assert "The server removes it by itself" in page


@on_one
async def test_the_issuer_and_what_clouds_read_is_shown(application: Application) -> None:
    page = await (await logged_in(application)).see(f"{HERE}/issuer")
    assert "published by this server" in page
    found = (await application.admin.get("/api/v1/issuer")).json()
    assert found["signing_key"] in page
    assert "jwks_uri" in page
    assert 'id="look"' not in page
