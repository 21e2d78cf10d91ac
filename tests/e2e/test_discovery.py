"""A folder that is pushed to a repository becomes a module by itself, with the real git, server, runner and OpenTofu."""

from typing import Any

import pytest

from terracrew.client.address import segment
from tests.e2e import forge_site
from tests.e2e.forge_site import NAME, TOKEN
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(120)]


@pytest.mark.feature("F6.rule", "F6.pending", "F6.gone")
def test_a_folder_of_a_pull_request_becomes_a_module_that_is_planned_and_is_marked_when_it_is_gone(
    system: System,
) -> None:
    with forge_site.running(system.directory / "served") as (site, served):
        site.commit("first", **{"prod/app": 'resource "terraform_data" "a" {}\n'})
        system.env |= served.environment | {
            "TERRACREW_SERVER_PRIVATE_DESTINATIONS": '["localhost"]',
            "TERRACREW_SERVER_FORGE_POLL_SECONDS": "5",
        }
        system.start_server(runner=True)
        api = system.api
        api.post("/groups", {"path": "team"})
        api.post("/forges", {"name": "git", "kind": "gitea", "base_url": site.url, "token": TOKEN})
        rule = {"name": "all", "group": "team", "url": f"{site.url}/{NAME}.git", "module_path": "{flat}"}
        preview = api.post("/discovery-rules/preview", rule)
        assert [(each["path"], each["state"]) for each in preview["folders"]] == [("team/prod-app", "new")]
        api.post("/discovery-rules", rule)

        def jobs() -> list[tuple[str, str, str]]:
            found = list(api.list("/jobs", dict[str, Any]))
            return sorted((each["module_path"], each["type"], each["status"]) for each in found)

        app = ("team/prod-app", "PLAN", "SUCCEEDED")
        eventually(lambda: jobs() == [app] or None, what="the plan of the first module")
        found = site.open("add-db", **{"prod/db": 'resource "terraform_data" "b" {}\n'})
        site.deliver()

        def pending() -> list[str]:
            return [each["path"] for each in api.get(f"/pull-requests/{segment(f'{NAME}#{found.number}')}")["pending"]]

        eventually(
            lambda: api.list("/pull-requests", dict[str, Any]) and pending() == ["team/prod-db"],
            what="the pending module",
        )
        assert jobs() == [app], "a module that does not exist has no plan"
        site.merge(found)
        api.post("/discovery-rules/team%2Fall/run", {})
        db = ("team/prod-db", "PLAN", "SUCCEEDED")
        eventually(lambda: jobs() == [app, db] or None, what="the plan of the new module")
        site.repository.git("rm", "-r", "-q", "prod/db")
        commit = site.commit("remove it")
        api.post("/discovery-rules/team%2Fall/run", {})
        module = "/modules/team%2Fprod-db"
        eventually(lambda: api.get(module)["source_gone"] == commit or None, what="the mark")
        assert len(jobs()) == 2, "nothing is destroyed"
        job = api.post(f"{module}/jobs", {"type": "APPLY"})
        ended = eventually(lambda: _ended(system, job["id"]), what="the end of the job")
        assert ended["status"] == "FAILED"
        assert "the source has no folder 'prod/db'" in ended["message"]


def _ended(system: System, job_id: str) -> dict[str, Any] | None:
    job = system.job(job_id)
    return job if job["status"] in ("SUCCEEDED", "FAILED", "CANCELED") else None
