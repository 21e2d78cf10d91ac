"""The dependencies of a module are listed in both directions, and name nothing that the reader may not see."""

import pytest

from terracrew.protocol.events import Output
from tests.server.application import Application
from tests.server.dashboard.visitor import logged_in
from tests.server.simulated_runner import SimulatedRunner
from tests.server.tree.inputs.places import SOURCE
from tests.server.tree.inputs.references import APP, NETWORK, apply, pair, refer


@pytest.mark.feature("J6.outputs", "S6.dependency")
async def test_the_dependencies_of_a_module_are_listed_in_both_directions(runner: SimulatedRunner) -> None:
    admin = runner.app.admin
    network, app = await pair(runner.app)
    await refer(admin, APP, NETWORK, "zones", "ZONES", target="environment")
    [first, second] = await admin.listed(f"/api/v1/modules/{app}/dependencies", limit=1)
    assert (first["path"], first["output"], first["name"], first["is_waited_for"]) == (NETWORK, "id", "vpc_id", True)
    assert (second["output"], second["target"], second["name"]) == ("zones", "environment", "ZONES")
    [user, again] = await admin.listed(f"/api/v1/modules/{network}/dependencies", direction="used_by", limit=1)
    assert (user["path"], user["module_id"], user["output"]) == (APP, app, "id")
    assert again["output"] == "zones"
    assert await admin.listed(f"/api/v1/modules/{network}/dependencies") == []
    await apply(runner, network, id=Output("vpc-1"))
    assert not (await admin.listed(f"/api/v1/modules/{app}/dependencies"))[0]["is_waited_for"]
    await admin.delete(f"/api/v1/modules/{network}", params={"force": True})
    [gone, _] = await admin.listed(f"/api/v1/modules/{app}/dependencies")
    assert (gone["path"], gone["module_id"], gone["is_deleted"]) == (None, None, True)


@pytest.mark.feature("J6.outputs", "X3.roles")
async def test_a_dependency_on_a_module_that_the_reader_may_not_see_does_not_name_it(application: Application) -> None:
    network, app = await pair(application)
    await application.admin.made("/api/v1/groups", {"path": "other"})
    user = await application.admin.made("/api/v1/modules", {"path": "other/user", "source": SOURCE})
    await refer(application.admin, "other/user", NETWORK)
    inside = await application.person("ines", "viewer", "platform")
    listed = await inside.listed(f"/api/v1/modules/{network}/dependencies", direction="used_by")
    assert [each["path"] for each in listed] == [APP]
    outside = await application.person("otto", "viewer", "other")
    [needed] = await outside.listed("/api/v1/modules/other%2Fuser/dependencies")
    assert (needed["path"], needed["module_id"], needed["is_deleted"]) == (None, None, False)
    [listed] = await outside.listed("/api/v1/inputs", place="other/user")
    assert (listed["source_module"], listed["is_source_hidden"], listed["source_output"]) == (None, True, "id")
    page = await (await logged_in(application, "otto")).see(f"/dashboard/modules/{user['id']}")
    assert "a module that you may not see" in page
    assert NETWORK not in page
    await outside.refused("GET", f"/api/v1/modules/{app}/dependencies", 404)
    await inside.refused("GET", f"/api/v1/modules/{app}/dependencies?direction=up", 400)
