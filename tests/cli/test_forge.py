"""Connections to forges on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.forges import ForgeDeliveryView, ForgeRepositoryView, ForgeView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

FORGE = answer(
    ForgeView,
    id="fcn_1",
    path="shop/git",
    group="shop",
    name="git",
    kind="gitea",
    base_url="https://git.example.com",
    problem="the forge does not accept the token",
    hook_url="https://terracrew.example.com/hooks/fcn_1",
    findings=[{"name": "write comments", "is_good": False, "message": "give the token write:issue"}],
)
REPOSITORY = answer(
    ForgeRepositoryView,
    name="acme/network",
    hook_status="disabled",
    hook_message="it was disabled",
    open_pull_requests=3,
)
DELIVERY = answer(
    ForgeDeliveryView, id="fdl_1", event="push", about=["acme/network, branch main"], problem="not watched"
)
pytestmark = pytest.mark.feature("F1.connections", "E1.commands")


def test_a_connection_is_created_with_secrets_from_files(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append((asked.method, asked.path, json.loads(asked.body)))
        return asked.answer(200, FORGE)

    server.then(reply, reply)
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    to = ("--kind", "gitea", "--base-url", "https://git.example.com", "--group", "shop")
    said = terracrew("forge", "create", "git", *to, "--token-file", str(token), "--no-hooks")
    assert said == "created the connection shop/git to https://git.example.com\n"
    assert "s3cret" not in said + terracrew.err
    assert "changed" in terracrew("forge", "update", "shop/git", "--owner", "acme")
    (method, path, body), (change_method, change_path, change) = bodies
    assert (method, path) == ("POST", "/api/v1/forges")
    assert (body["token"], body["group"], body["makes_hooks"]) == ("s3cret", "shop", False)
    assert (change_method, change_path, change) == ("PATCH", "/api/v1/forges/shop%2Fgit", {"owner": "acme"})
    terracrew("forge", "update", "shop/git")
    assert "changes it: see `terracrew forge update --help`" in terracrew.err


def test_connections_are_listed_and_shown_with_what_is_missing(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.answer(200, {"items": [FORGE], "next": None}), lambda asked: asked.answer(200, FORGE)
    )
    listed = terracrew("forge", "list")
    for part in ("shop/git", "Gitea", "failing", "does not accept"):
        assert part in listed
    shown = terracrew("forge", "show", "shop/git")
    assert "write comments: give the token write:issue" in shown
    assert "https://terracrew.example.com/hooks/fcn_1" in shown


def test_a_test_that_finds_something_missing_ends_with_1(terracrew: Terracrew, server: ScriptedServer) -> None:
    missing = {"repository": "acme/network", "is_good": False, "findings": FORGE["findings"]}
    good = {"repository": "", "is_good": True, "findings": [{"name": "sign in", "is_good": True, "message": "as bot"}]}
    server.then(lambda asked: asked.answer(200, missing), lambda asked: asked.answer(200, good))
    said = terracrew("forge", "test", "shop/git", "--repository", "acme/network")
    assert terracrew.code == 1
    assert "MISSING" in said
    assert "give the token write:issue" in said
    assert "as bot" in terracrew("forge", "test", "shop/git")
    assert terracrew.code == 0


def test_repositories_hooks_and_deliveries(terracrew: Terracrew, server: ScriptedServer) -> None:
    asked_for: list[str] = []

    def replies(value: Any, status: int = 200) -> Any:
        def reply(asked: Any) -> Any:
            asked_for.append(f"{asked.method} {asked.path.removeprefix('/api/v1/forges/shop%2Fgit')}")
            return asked.answer(status, value)

        return reply

    page = {"items": [REPOSITORY], "next": None}
    server.then(replies(page), replies(REPOSITORY), replies(REPOSITORY), replies(None, 204))
    assert "it was disabled" in terracrew("forge", "repositories", "shop/git")
    assert terracrew("forge", "add-repository", "shop/git", "acme/network") == "acme/network is watched\n"
    said = terracrew("forge", "repair-hook", "shop/git", "acme/network")
    assert (terracrew.code, said) == (1, "the hook of acme/network is disabled: it was disabled\n")
    terracrew("forge", "remove-repository", "shop/git", "acme/network")
    server.then(replies({"items": [DELIVERY], "next": None}), replies(DELIVERY))
    listed = terracrew("forge", "deliveries", "shop/git")
    assert "branch main" in listed
    assert "waits: not watched" in listed
    assert terracrew("forge", "handle-again", "shop/git", "fdl_1") == "fdl_1 is handled again\n"
    assert [each.partition("?")[0] for each in asked_for] == [
        "GET /repositories",
        "POST /repositories",
        "POST /repositories/acme%2Fnetwork/hook",
        "DELETE /repositories/acme%2Fnetwork",
        "GET /deliveries",
        "POST /deliveries/fdl_1/handle-again",
    ]


def test_a_secret_is_replaced_and_a_connection_deleted(terracrew: Terracrew, server: ScriptedServer) -> None:
    secret = {"url": "https://terracrew.example.com/hooks/fcn_1", "secret": "hush"}
    server.then(lambda asked: asked.answer(200, secret), lambda asked: asked.answer(204, None))
    assert terracrew("forge", "replace-hook-secret", "shop/git") == "hush\n"
    assert "https://terracrew.example.com/hooks/fcn_1" in terracrew.err
    assert terracrew("forge", "delete", "shop/git", "--yes") == "deleted shop/git\n"
