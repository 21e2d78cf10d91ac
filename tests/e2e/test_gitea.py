"""Pull requests on a real Gitea are planned because of its hooks, commanded by comments there, merged in both directions and applied."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from terracrew.client.address import segment
from tests.e2e.system import System, eventually
from tests.forges.gitea_place import GiteaPlace
from tests.machine import platforms
from tests.machine.receiver import Receiver

pytestmark = [pytest.mark.engine, pytest.mark.platform("gitea"), pytest.mark.timeout(240)]
POLL_SECONDS = 3600
"""Nothing is found by polling while the test runs."""


def resource(name: str) -> str:
    return f'resource "terraform_data" "{name}" {{ input = "{name}" }}\n'


class Site:
    """What people and the server see of one repository."""

    def __init__(self, system: System, place: GiteaPlace, loop: asyncio.Runner) -> None:
        self.system, self.place, self.loop = system, place, loop

    def shown(self, number: int) -> dict[str, Any]:
        return self.system.api.get(f"/pull-requests/{segment(f'{self.place.repository}#{number}')}")

    def becomes(self, number: int, state: str) -> dict[str, Any]:
        """Wait until the only module of a pull request is in this state, and return it."""

        def found() -> dict[str, Any] | None:
            touched = self.shown(number)["touched"]
            return touched[0] if [each["state"] for each in touched] == [state] else None

        return eventually(found, what=f"that pull request {number} is {state}")

    def status(self, number: int) -> str | None:
        """Return the words of the status that Gitea shows."""
        commit = self.shown(number)["head_commit"]
        return self.loop.run(self.place.statuses(commit)).get("terracrew")

    def comments(self, number: int) -> list[str]:
        """Return the comments of the server that Gitea shows."""
        return self.loop.run(self.place.own_comments(number))


@contextmanager
def connected(system: System) -> Generator[Site]:
    with asyncio.Runner() as loop:
        place = loop.run(GiteaPlace.make(platforms.need("gitea"), Receiver()))
        loop.run(place.add("main", app=resource("one")))
        system.env |= {
            "SSL_CERT_FILE": place.trusted,
            "GIT_SSL_CAINFO": place.trusted,
            "TERRACREW_SERVER_PRIVATE_DESTINATIONS": '["localhost"]',
            "TERRACREW_SERVER_FORGE_POLL_SECONDS": str(POLL_SECONDS),
        }
        system.start_server(runner=True)
        system.api.post("/groups", {"path": "team"})
        connection = {
            "name": "git",
            "kind": "gitea",
            "base_url": place.url,
            "token": place.tokens["write"],
            "merges": True,
        }
        system.api.post("/forges", connection)
        source = {"kind": "git", "url": f"{place.url}/{place.repository}.git", "subdirectory": "app"}
        system.api.post("/modules", {"path": "team/app", "source": source})
        eventually(
            lambda: (
                [each["hook_status"] for each in system.api.list("/forges/git/repositories", dict[str, Any])]
                == ["enabled"]
            ),
            what="the hook",
        )
        try:
            yield Site(system, place, loop)
        finally:
            loop.run(place.leave())


@pytest.mark.feature("F1.gitea")
def test_pull_requests_on_a_real_gitea_are_planned_commanded_merged_and_applied(system: System) -> None:
    with connected(system) as site:
        system.api.patch("/groups/team", {"pull_request_apply": "on_command_then_merge"})
        place = site.place
        commanded = site.loop.run(place.open("two", app=resource("two")))
        assert site.becomes(commanded, "changes")["counts"] == "2 to add, 0 to change, 0 to destroy"
        eventually(lambda: "1 module" in (site.status(commanded) or ""), what="the status")
        # The first text of the comment may be from before the plan.
        eventually(lambda: "terraform_data.two" in "".join(site.comments(commanded)), what="the plan in the comment")
        user = system.api.post("/users", {"name": "bob"})["user"]
        system.api.post("/roles", {"principal": "bob", "role": "operator", "path": "team"})
        bob = {"forge_user": "bob", "user": user["id"], "forge_user_id": site.loop.run(place.id_of("bob"))}
        system.api.post("/forges/git/users", bob)
        site.loop.run(place.comment(commanded, "terracrew apply"))
        site.becomes(commanded, "applied")
        eventually(lambda: site.shown(commanded)["state"] == "merged", what="the merge by the server")
        eventually(lambda: "1 module applied" in "".join(site.comments(commanded)), what="the answer in the comment")
        eventually(lambda: site.status(commanded) == "1 module applied", what="the last status")
        assert len(site.comments(commanded)) == 1
        system.api.patch("/groups/team", {"pull_request_apply": "on_merge"})
        merged = site.loop.run(place.open("three", app=resource("three")))
        plan = site.becomes(merged, "changes")["plan_job_id"]
        site.loop.run(place.merge(merged))
        applied = system.job(site.becomes(merged, "applied")["apply_job_id"])
        assert applied["plan_job_id"] == plan
        assert system.api.get("/modules/team%2Fapp/resources")["count"] == 3
        delivered = system.api.get("/forges/git/deliveries", limit=100)["items"]
        assert {each["problem"] for each in delivered} == {""}
