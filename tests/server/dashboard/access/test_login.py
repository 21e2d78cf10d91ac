"""People log in with a password or a one-time link, come back to the page that they asked for, and log out."""

import pytest

from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import sessions
from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor


async def test_a_stranger_is_shown_the_way_in_and_comes_back_to_where_they_wanted(application: Application) -> None:
    someone = visitor(application)
    answer = await someone.get("/dashboard/jobs?status=open")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?next=%2Fdashboard%2Fjobs%3Fstatus%3Dopen"
    await logged_in(application)  # sets the password
    page = await someone.see(answer.headers["location"])
    assert 'value="/dashboard/jobs?status=open"' in page
    wrong = await someone.submit("/login", name="admin", password="wrong password", next="/dashboard/jobs?status=open")
    assert wrong.status_code == 401
    assert "The name or the password is wrong." in wrong.text
    right = await someone.submit(
        "/login", name="admin", password="correct horse battery", next="/dashboard/jobs?status=open"
    )
    assert (right.status_code, right.headers["location"]) == (303, "/dashboard/jobs?status=open")
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/", "/dashboard//evil", "/dashboard/\\evil", "/x"]
)
async def test_a_login_never_leads_to_another_site(application: Application, to: str) -> None:
    someone = await logged_in(application)
    answer = await someone.get("/login", params={"next": to})
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")


async def test_a_one_time_link_works_once_and_looking_at_it_does_not_use_it_up(application: Application) -> None:
    someone, token = visitor(application), await identity.make_link(application.server.db)
    for _ in range(2):
        assert "Welcome, admin" in await someone.see(f"/login/link/{token}")
    short = await someone.submit(f"/login/link/{token}", password="short", again="short")
    assert (short.status_code, "10 to 1024 characters" in short.text) == (400, True)
    other = await someone.submit(f"/login/link/{token}", password="one long password", again="another long password")
    assert (other.status_code, "not the same" in other.text) == (400, True)
    good = await someone.submit(f"/login/link/{token}", password="one long password", again="one long password")
    assert good.status_code == 303
    assert "This link no longer works" in await visitor(application).see(f"/login/link/{token}", 410)


async def test_a_link_logs_in_without_a_password_on_the_servers_own_machine_only(application: Application) -> None:
    here = visitor(application)
    link = f"/login/link/{await identity.make_link(application.server.db)}"
    away = Visitor(transport=application.transport("192.0.2.1"), base_url="http://127.0.0.1:7400")
    assert "data-enter" not in await away.see(f"{link}?enter=true")
    refused = await away.submit(link, enter="true")
    assert (refused.status_code, "only on the server&#39;s own machine" in refused.text) == (400, True)
    assert "data-enter" not in await here.see(link), "a link asks for a password unless it was made for this"
    assert "data-enter" in await here.see(f"{link}?enter=true")
    entered = await here.submit(link, enter="true", next="//evil.example")
    assert (entered.status_code, entered.headers["location"]) == (303, "/dashboard")
    assert (await visitor(application).submit(link, enter="true")).status_code == 410


async def test_a_session_that_was_logged_out_is_not_accepted_again(application: Application) -> None:
    someone = await logged_in(application)
    await someone.see("/dashboard/runners")
    kept = someone.cookies.get(sessions.COOKIE)
    assert (await someone.submit("/logout")).status_code == 303
    someone.cookies.set(sessions.COOKIE, kept or "")
    assert (await someone.get("/dashboard/runners")).status_code == 303
