"""An address that does not exist is answered with a page for people and a problem for programs."""

from tests.server.application import Application
from tests.server.dashboard.visitor import visitor


async def test_an_address_that_does_not_exist_is_a_page_for_a_browser_and_a_problem_for_a_program(
    application: Application,
) -> None:
    """`/dashboard/nope` was answered with raw JSON."""
    someone = visitor(application)
    answer = await someone.get("/dashboard/nope")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "<h1>Not found</h1>" in answer.text
    assert "There is no page at /dashboard/nope." in answer.text
    assert "<script>" not in (await someone.get("/dashboard/<script>")).text
    answer = await someone.get("/nope", headers={"Accept": "text/html,*/*"})
    assert "<h1>Not found</h1>" in answer.text
    for path in ("/api/v1/nope", "/static/nope"):
        answer = await someone.get(path, headers={"Accept": "text/html,*/*"})
        assert answer.headers["Content-Type"] == "application/problem+json"
