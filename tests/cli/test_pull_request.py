"""Pull requests, and the users of forges, on the command line."""

import json

import pytest

from terracrew.api.pull_requests import ForgeUserView, PullRequestModule, PullRequestOutcome, PullRequestView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

HEAD = "1a2b3c4d" * 5
NAME = "acme/network#12"
ADDRESS = "/api/v1/pull-requests/acme%2Fnetwork%2312"
MODULE = answer(
    PullRequestModule,
    path="shop/network",
    state="changes",
    counts="2 to add, 0 to change, 1 to destroy",
    apply="on_command",
    plan_job_id="job_71",
    plan_number=71,
)
PULL_REQUEST = answer(
    PullRequestView,
    repository="acme/network",
    number=12,
    title="Widen the subnets",
    author="ada",
    state="open",
    head_commit=HEAD,
    base_branch="main",
    base_commit="9f8e7d6c" * 5,
    modules={"changes": 1},
    touched=[MODULE],
)
LINKED = answer(ForgeUserView, forge_user="ada-on-git", forge_user_id="4711", user="ada")
pytestmark = pytest.mark.feature("F3.shown", "F4.apply", "E1.commands")


def test_pull_requests_are_listed_and_shown_with_their_plans(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.answer(200, {"items": [PULL_REQUEST], "next": None}),
        lambda asked: asked.answer(200, PULL_REQUEST),
    )
    listed = terracrew("pull-request", "list", "--state", "all")
    for part in (NAME, "Widen the subnets", "1a2b3c4d1a2b"):
        assert part in listed
    shown = terracrew("pull-request", "show", NAME)
    for part in ("shop/network", "2 to add, 0 to change, 1 to destroy", "#71", "on_command"):
        assert part in shown
    assert "merged into main at 9f8e7d6c9f8e" in shown + terracrew.err
    assert [repr(asked) for asked in server.asked][1] == f"GET {ADDRESS}"


def test_an_apply_names_the_commit_that_was_seen_and_ends_with_1_if_something_is_refused(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    refused = answer(PullRequestOutcome, message="shop/network: it is pinned", refused={"shop/network": "it is pinned"})
    done = answer(PullRequestOutcome, message="shop/network is applied by #72", done=["shop/network"])
    server.then(
        lambda asked: asked.answer(200, PULL_REQUEST),
        lambda asked: asked.answer(200, refused),
        lambda asked: asked.answer(200, PULL_REQUEST),
        lambda asked: asked.answer(200, done),
    )
    assert "it is pinned" in terracrew("pull-request", "apply", NAME, "shop/network")
    assert terracrew.code == 1
    assert "#72" in terracrew("pull-request", "apply", NAME, "--commit", HEAD)
    assert terracrew.code == 0
    _, first, _, second = server.asked
    assert (first.path, json.loads(first.body)) == (
        f"{ADDRESS}/apply",
        {"modules": ["shop/network"], "head_commit": HEAD, "plans": ["job_71"]},
    )
    assert json.loads(second.body)["head_commit"] == HEAD


def test_plans_are_made_again_and_canceled_and_a_commit_of_a_fork_is_allowed(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    done = answer(PullRequestOutcome, message="done for shop/network", done=["shop/network"])
    server.then(*[lambda asked: asked.answer(200, done)] * 3)
    for command, given in (("plan", "shop/network"), ("cancel", "shop/network"), ("allow", HEAD)):
        assert terracrew("pull-request", command, NAME, given) == "done for shop/network\n"
    assert [(each.path, json.loads(each.body)) for each in server.asked] == [
        (f"{ADDRESS}/plan", {"modules": ["shop/network"]}),
        (f"{ADDRESS}/cancel", {"modules": ["shop/network"]}),
        (f"{ADDRESS}/allow", {"commit": HEAD}),
    ]


def test_users_of_a_forge_are_linked_listed_and_unlinked(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.answer(201, LINKED),
        lambda asked: asked.answer(200, {"items": [LINKED], "next": None}),
        lambda asked: asked.answer(204, None),
    )
    said = terracrew("forge", "link-user", "shop/git", "ada-on-git", "ada")
    assert said == "what ada-on-git (4711) writes there is done as ada\n"
    assert "4711" in terracrew("forge", "users", "shop/git")
    assert terracrew("forge", "unlink-user", "shop/git", "4711") == "unlinked 4711\n"
    assert (server.asked[-1].method, server.asked[-1].path) == ("DELETE", "/api/v1/forges/shop%2Fgit/users/4711")
