"""States in quarantine are shown with what is current, and adopted or discarded by a form."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("O3.fenced", "U5.page")
async def test_states_in_quarantine_are_shown_with_what_is_current_and_decided_about(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    page = await someone.see_job(jobs["held"])
    for word in ("2 states wait for your decision", "9; the current one is 7", "errored.tfstate", "(the same)"):
        assert word in page, word
    assert page.count("adopting it takes the module back") == 2, "said beside the older one and before it is adopted"
    sql = "SELECT id FROM states WHERE status = 'quarantined' AND serial = :serial"
    newer, older = await application.scalar(sql, serial=9), await application.scalar(sql, serial=6)
    assert (await someone.submit(f"/dashboard/states/{newer}/adopt")).status_code == 303
    done = await someone.submit(f"/dashboard/states/{older}/discard")
    module = await someone.see(done.headers["location"])
    assert "wait for your decision" not in module
    assert "version 4" in module
    assert (await someone.submit(f"/dashboard/states/{older}/discard")).status_code == 409
