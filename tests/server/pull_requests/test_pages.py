"""The pages of pull requests: the list, one with its modules, and what can be asked for there."""

import pytest

from tests.server.dashboard.visitor import logged_in
from tests.server.pull_requests.world import World

HERE = "/dashboard/pull-requests"
pytestmark = pytest.mark.feature("F3.shown")


async def test_a_pull_request_is_looked_at_and_applied_on_its_page(world: World) -> None:
    await world.app.admin.patch("/api/v1/groups/team", json={"pull_request_apply": "on_command"})
    someone = await logged_in(world.app)
    assert "No pull request is open" in await someone.see(HERE)
    found = await world.planned()
    row, _ = await world.show(found)
    page = await someone.see(HERE)
    assert f"acme/network#{found.number}" in page
    assert "1 with changes" in page
    address = f"{HERE}/{row.id}"
    page = await someone.see(address)
    plan = (await world.show(found))[1]["team/app"].plan_job_id
    assert f'name="plans" value="{plan}"' in page
    assert "1 to add, 0 to change, 0 to destroy" in page
    assert "terraform_data.a" in page
    assert (await someone.submit(f"{address}/apply", commit=found.head_commit, plans=plan or "")).status_code == 303
    job = await world.job((await world.show(found))[1]["team/app"].apply_job_id)
    assert f"Apply #{job.number}" in await someone.see(address)
    assert f'href="{address}"' in await someone.see_job(job.id)
    assert (await someone.submit(f"{address}/cancel")).status_code == 303
    await world.step()
    assert "Apply failed" in await someone.see(address)
    assert (await someone.submit(f"{address}/plan", module="team/app")).status_code == 303
    await world.step()
    assert "Waiting" in await someone.see(address)
    assert "No pull request is merged" in await someone.see(f"{HERE}?only=merged")
    assert f"acme/network#{found.number}" in await someone.see(f"{HERE}?only=nonsense")


async def test_the_page_of_a_fork_lets_a_member_allow_its_commit(world: World) -> None:
    found = world.open_on_forge("change", "app", is_fork=True)
    await world.step()
    address = f"{HERE}/{(await world.show(found))[0].id}"
    await world.app.person("vera", "operator")
    viewer, someone = await logged_in(world.app, "vera"), await logged_in(world.app)
    assert "Allow this commit" not in await viewer.see(address)
    assert "Allow this commit" in await someone.see(address)
    assert (await someone.submit(f"{address}/allow", commit=found.head_commit)).status_code == 303
    await world.step()
    page = await someone.see(address)
    assert "Nothing is planned" not in page
    assert "team/app" in page
