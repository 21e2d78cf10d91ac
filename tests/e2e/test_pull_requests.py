"""A pull request on a forge becomes a plan by the real OpenTofu, a status, a comment and an apply; whatever happens on the way."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest

from terracrew.client.address import segment
from tests.e2e import forge_site
from tests.e2e.forge_site import NAME, TOKEN, ForgeSite
from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
WITHIN_SECONDS = 60.0
"""Every pull request has its plan within this time, also if everything that the forge delivers is lost."""
POLL_SECONDS = 5


def resources(*names: str) -> str:
    return "".join(f'resource "terraform_data" "{name}" {{ input = "{name}" }}\n' for name in names)


@contextmanager
def connected(system: System) -> Generator[ForgeSite]:
    """A forge with a repository that two modules have as their source, and a server that is connected to it."""
    with forge_site.running(system.directory / "served") as (site, served):
        site.commit("first", app=resources("one"), net=resources("a"))
        system.env |= served.environment | {
            "TERRACREW_SERVER_PRIVATE_DESTINATIONS": '["localhost"]',
            "TERRACREW_SERVER_FORGE_POLL_SECONDS": str(POLL_SECONDS),
        }
        system.start_server(runner=True)
        system.api.post("/groups", {"path": "team"})
        system.api.post("/forges", {"name": "git", "kind": "gitea", "base_url": site.url, "token": TOKEN})
        for folder in ("app", "net"):
            source = {"kind": "git", "url": f"{site.url}/{NAME}.git", "subdirectory": folder}
            system.api.post("/modules", {"path": f"team/{folder}", "source": source})
        eventually(lambda: site.on_forge.hooks, what="the hook")
        yield site


def shown(system: System, number: int) -> dict[str, Any]:
    return system.api.get(f"/pull-requests/{segment(f'{NAME}#{number}')}")


def states(system: System, number: int) -> dict[str, str]:
    return {each["path"]: each["state"] for each in shown(system, number)["touched"]}


@pytest.mark.feature("F3.touched", "F3.shown", "F3.commands", "F4.apply")
def test_a_pull_request_is_planned_shown_and_applied_by_a_comment(system: System) -> None:
    with connected(system) as site:
        system.api.patch("/groups/team", {"pull_request_apply": "on_command"})
        found = site.open("add-two", app=resources("one", "two"))
        began = time.monotonic()
        site.deliver()
        eventually(lambda: states(system, found.number) == {"team/app": "changes"} or None, what="the plan")
        took = time.monotonic() - began
        [module] = shown(system, found.number)["touched"]
        assert (module["counts"], module["resources"]) == (
            "2 to add, 0 to change, 0 to destroy",
            ["create   terraform_data.one", "create   terraform_data.two"],
        )
        plan = system.job(module["plan_job_id"])
        assert plan["origin"]["name"] == f"{NAME} #{found.number}"
        assert took < WITHIN_SECONDS
        eventually(lambda: site.status.get((found.head_commit, "terracrew")) == "success", what="the status")
        eventually(lambda: any("terraform_data.two" in each for each in site.own_comments), what="the comment")
        user = system.api.post("/users", {"name": "bob"})["user"]
        system.api.post("/roles", {"principal": "bob", "role": "operator", "path": "team"})
        link = {"forge_user": "bob", "user": user["id"], "forge_user_id": str(site.forge.users["bob"].id)}
        system.api.post("/forges/git/users", link)
        site.comment(found, "terracrew apply", by="bob")
        site.deliver()
        eventually(lambda: states(system, found.number) == {"team/app": "applied"} or None, what="the apply")
        applied = system.job(shown(system, found.number)["touched"][0]["apply_job_id"])
        assert (applied["plan_job_id"], applied["created_by"]) == (plan["id"], user["id"])
        assert applied["source_commit"] == plan["source_commit"]
        assert system.api.get("/modules/team%2Fapp/resources")["count"] == 2


@pytest.mark.feature("F2.polling", "F2.order", "F2.once")
@thorough
def test_whatever_is_delivered_and_whoever_is_killed_each_pull_request_has_its_plan_within_a_minute(
    system: System,
) -> None:
    """Deliveries are dropped, repeated and reordered at random, and the server is killed twice in between."""
    chance = Random(33)
    with connected(system) as site:
        pull_requests = [site.open(f"change-{number}", app=resources(f"n{number}")) for number in range(4)]
        site.push(pull_requests[0], net=resources("b"))
        waiting = list(site.forge.deliveries)
        sent = [each for each in waiting * 3 if chance.random() < 0.3]
        chance.shuffle(sent)
        site.forge.deliveries.clear()
        began = time.monotonic()
        for number, each in enumerate(sent):
            site.deliver(each)
            if number in (1, 3):
                system.processes[0].kill()
                system.start_server(runner=True)
                system.processes.insert(0, system.processes.pop())

        def planned() -> bool:
            wanted = [{"team/app", "team/net"}, *[{"team/app"}] * 3]
            found = [states(system, each.number) for each in pull_requests]
            return [set(each) for each in found] == wanted and all(
                state == "changes" for each in found for state in each.values()
            )

        eventually(planned, within=WITHIN_SECONDS + 30, what="all plans")
        assert time.monotonic() - began < WITHIN_SECONDS + 30
        jobs = [each for each in system.api.list("/jobs", dict[str, Any]) if each["status"] == "SUCCEEDED"]
        commits = [(each["module_id"], each["origin"]["commit"]) for each in jobs]
        assert len(set(commits)) == len(commits), "a plan was made twice"
        assert len(site.own_comments) <= len(pull_requests), "each pull request has one comment"
