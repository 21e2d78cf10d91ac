"""What happens with pull requests is decided by the nearest place that says something, for each setting on its own."""

from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules.policy import PullRequestRules
from tests.server.application import Application

SOURCE = {"kind": "local", "path": "/srv/sources/vpc"}


async def rules(application: Application, module: str) -> PullRequestRules:
    found = (await application.admin.get(f"/api/v1/modules/{module}")).json()
    return (await application.server.db.read(lambda tx: policy.pull_request_rules(tx, [found["id"]])))[found["id"]]


async def test_the_nearest_place_decides_about_each_setting(application: Application) -> None:
    admin = application.admin
    await admin.made("/api/v1/groups", {"path": "team", "pull_request_apply": "on_merge", "forge_approvals": True})
    await admin.made("/api/v1/groups", {"path": "team/net", "pull_request_plans": False})
    await admin.made("/api/v1/modules", {"path": "team/net/vpc", "source": SOURCE, "pull_request_apply": "never"})
    await admin.made("/api/v1/modules", {"path": "team/app", "source": SOURCE, "watch": ["/app/**"]})
    assert await rules(application, "team%2Fnet%2Fvpc") == PullRequestRules(False, "never", True)
    assert await rules(application, "team%2Fapp") == PullRequestRules(True, "on_merge", True)
    changed = await admin.patch("/api/v1/modules/team%2Fnet%2Fvpc", json={"pull_request_plans": True})
    assert changed.json()["pull_request_plans"] is True
    assert (await rules(application, "team%2Fnet%2Fvpc")).is_planned
