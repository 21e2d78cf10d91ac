"""The page of a group shows the newest run of its modules."""

import pytest

from terracrew.server.group_runs.loop import GroupRuns
from tests.server.application import Application, on_one
from tests.server.dashboard.visitor import logged_in
from tests.server.tree.inputs.places import tree, tree_again
from tests.server.tree.inputs.references import APP, NETWORK, refer


@on_one
@pytest.mark.feature("J6.groups", "U6.tree")
async def test_the_page_of_a_group_shows_how_far_its_run_is(application: Application) -> None:
    admin, server = application.admin, application.server
    await tree(application)
    await tree_again(application, "app")
    await refer(admin, APP, NETWORK)
    group = (await admin.get("/api/v1/groups/platform")).json()["id"]
    session = await logged_in(application)
    assert "Apply of all modules" not in (await session.get(f"/dashboard/groups/{group}")).text
    run = await admin.made("/api/v1/groups/platform/runs", {"type": "APPLY"})
    await GroupRuns(server.db, server.keys, server.settings.local_roots).step()
    text = (await session.get(f"/dashboard/groups/{group}")).text
    assert "Apply of all modules" in text
    assert "0 of 2" in text
    assert text.index("Running", text.index('id="run"')) < text.index("Waiting", text.index('id="run"'))
    job_id = (await admin.get(f"/api/v1/groups/platform/runs/{run['id']}")).json()["modules"][0]["job_id"]
    assert f"/dashboard/jobs/{job_id}" in text
    assert "A run of all modules of a group" in (await session.get(f"/dashboard/jobs/{job_id}")).text
    await admin.post(f"/api/v1/groups/platform/runs/{run['id']}/stop")
    await GroupRuns(server.db, server.keys, server.settings.local_roots).step()
    text = (await session.get(f"/dashboard/groups/{group}")).text
    assert f"/dashboard/groups/{group}/runs/{run['id']}/resume" in text
