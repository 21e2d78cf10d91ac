"""The pages of drift: the list with its filters, one module with what differs, mutes, checks, and the way back."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.server.dashboard.visitor import logged_in
from tests.server.drift.checked import Checked, differs
from tests.server.simulated_runner import SimulatedRunner

HERE = "/dashboard/drift"
pytestmark = pytest.mark.feature("M2.fleet")


async def test_the_list_shows_what_differs_and_what_the_last_check_has_found(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner, "one", "two")
    await team.check(differs(), differs("aws_s3.logs"))
    await team.check(name="two")
    someone = await logged_in(runner.app)
    page = await someone.see(HERE)
    assert "team/one" in page
    assert "team/two" not in page
    assert "<b>2 new</b>" in page
    assert "2 differ" in page
    page = await someone.see(f"{HERE}?only=all")
    assert "No drift" in page
    assert "No check has failed" in await someone.see(f"{HERE}?only=failed")
    assert "team/one" in await someone.see(f"{HERE}?only=nonsense")


@pytest.mark.feature("M2.mutes", "M2.reconcile")
async def test_a_module_is_checked_muted_and_reconciled_on_its_page(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    someone = await logged_in(runner.app)
    module = (await team.show())["module_id"]
    address = f"{HERE}/{module}"
    assert "Not checked yet" in await someone.see(address)
    assert (await someone.submit(f"{address}/check")).status_code == 303
    assert "A check begins as soon as none" in await someone.see(address)
    await team.step()
    assert "queued or runs, asked for by admin" in await someone.see(address)
    await team.end(differs(), differs("aws_s3.logs"))
    page = await someone.see(address)
    assert "new aws_s3.logs, new aws_vpc.main" in page
    assert "changed outside" in page
    assert "aws_vpc.main" in await someone.see(f"{address}/mute?address=aws_vpc.main")
    refused = await someone.submit(f"{address}/mute", address="aws_vpc.main", reason="it scales", until="soon")
    assert 'id="until-wrong"' in refused.text
    assert "it scales" in refused.text
    until = (datetime.now(UTC) + timedelta(days=9)).date().isoformat()
    answer = await someone.submit(f"{address}/mute", address="aws_vpc.main", reason="it scales", until=until)
    assert answer.headers["location"] == address
    page = await someone.see(address)
    assert "it scales" in page
    assert "1 differs" in page
    mute = re.search(r'name="mute" value="(mut_\w+)"', page)
    assert mute
    assert (await someone.submit(f"{address}/unmute", mute=mute[1])).status_code == 303
    assert "it scales" not in await someone.see(address)
    answer = await someone.submit(f"{address}/reconcile")
    assert "Apply" in await someone.see(answer.headers["location"])
    assert "2 differ" in await someone.see(f"/dashboard/modules/{module}")


async def test_a_failed_check_says_why_and_who_may_only_look_gets_no_buttons(runner: SimulatedRunner) -> None:
    team = await Checked.make(runner)
    await team.check(differs())
    await team.ask()
    await team.step()
    await team.end(described=False)
    await runner.app.person("vera", "viewer", "team")
    vera = await logged_in(runner.app, "vera")
    page = await vera.see(f"{HERE}/{(await team.show())['module_id']}")
    assert "The last check found nothing out." in page
    assert "its runner has an older version" in page
    assert "aws_vpc.main" in page
    for button in ("check-drift", "reconcile", "Mute…", "check-full"):
        assert button not in page
    await vera.see(f"{HERE}/{(await team.show())['module_id']}/mute", 403)
    page = await vera.see(f"{HERE}?only=failed")
    assert "Check failed" in page
    assert "failed <time" in page
