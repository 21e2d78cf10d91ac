"""The modules pages show what stands in the way of the next job of a module."""

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in


@pytest.mark.feature("U5", "S6")
async def test_the_module_page_shows_an_orphaned_lock_and_where_to_free_it(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    module = await world.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["lost"])
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "The lock of its state is orphaned" in page
    assert f"/dashboard/jobs/{jobs['lost']}#lost" in page
    listing = await someone.see("/dashboard/modules")
    assert "Lock orphaned" in listing
    assert "A state waits for your decision" in listing


@pytest.mark.usefixtures("jobs")
async def test_the_destroy_page_refreshes_itself_at_its_own_address(world: Application) -> None:
    """Every ten seconds, the page asked for `/destroy?again=`, and showed that the server answered 400."""
    someone = await logged_in(world)
    module = await world.scalar("SELECT id FROM modules WHERE path = 'hello'")
    path = f"/dashboard/modules/{module}/destroy"
    assert f'hx-get="{path}"' in await someone.see(path)
