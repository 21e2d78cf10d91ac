"""Discovery rules on the command line."""

import json
from typing import Any

import pytest

from terracrew.api.discovery import DiscoveryPreview, DiscoveryRuleDetails
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

FOLDERS = [
    {"folder": "", "path": "shop/infra", "state": "new", "module_id": None, "reason": ""},
    {"folder": "prod/queue", "path": "shop/queue", "state": "conflict", "module_id": None, "reason": "it is taken"},
]
VIEW = answer(
    DiscoveryRuleDetails,
    id="dsc_1",
    name="infra",
    path="shop/infra",
    group="shop",
    url="https://github.com/acme/infra",
    engine="tofu",
    include=["prod/*"],
    is_enabled=True,
    problem="",
    commit_id="9f2c" * 10,
    looked_at="2026-11-01T03:00:00Z",
    counts={"made": 12, "conflict": 1},
    folders=FOLDERS,
)
PREVIEW = answer(DiscoveryPreview, branch="main", commit_id="9f2c" * 10, problem="", folders=FOLDERS)
pytestmark = pytest.mark.feature("F6.rule", "E1.commands")


def test_a_rule_is_previewed_created_changed_run_and_deleted(terracrew: Terracrew, server: ScriptedServer) -> None:
    asked: list[tuple[str, str, Any]] = []

    def reply(value: Any) -> Any:
        def respond(request: Any) -> Any:
            asked.append((request.method, request.path, json.loads(request.body) if request.body else None))
            return request.answer(200, value)

        return respond

    server.then(*(reply(each) for each in (PREVIEW, VIEW, VIEW, VIEW, None)))
    options = ("--url", "https://github.com/acme/infra", "--include", "prod/*", "--include", "stage", "--no-plans-new")
    out = terracrew("discovery", "create", "shop", "infra", *options, "--preview")
    assert "(top)" in out
    assert "it is taken" in out
    assert "1 module would be made of main at 9f2c9f2c9f2c. Nothing was made." in terracrew.err
    assert "created the discovery rule shop/infra" in terracrew("discovery", "create", "shop", "infra", *options)
    terracrew("discovery", "update", "shop/infra", "--no-enabled")
    assert "looks at its repository" in terracrew("discovery", "run", "shop/infra")
    terracrew("discovery", "delete", "shop/infra", "--yes")
    body = {"group": "shop", "name": "infra", "url": options[1], "include": ["prod/*", "stage"], "plans_new": False}
    here = "/api/v1/discovery-rules"
    assert [each[:2] for each in asked[:2]] == [("POST", f"{here}/preview"), ("POST", here)]
    assert asked[0][2] == asked[1][2]
    assert asked[1][2] | body == asked[1][2]
    assert [each[:2] for each in asked[2:]] == [
        ("PATCH", f"{here}/shop%2Finfra"),
        ("POST", f"{here}/shop%2Finfra/run"),
        ("DELETE", f"{here}/shop%2Finfra"),
    ]
    assert asked[2][2] == {"is_enabled": False}


def test_a_rule_is_listed_and_shown_with_its_folders(terracrew: Terracrew, server: ScriptedServer) -> None:
    failing = VIEW | {"path": "other/all", "problem": "the repository has no branch release"}
    server.then(lambda asked: asked.answer(200, {"items": [VIEW, failing]}), lambda asked: asked.answer(200, VIEW))
    out = terracrew("discovery", "list")
    assert "needs attention" in out
    assert "does not work" in out
    assert "12 made, 1 in conflict" in out
    assert "other/all: the repository has no branch release" in terracrew.err
    out = terracrew("discovery", "show", "shop/infra")
    assert "prod/queue" in out
    assert "it is taken" in out


def test_a_preview_asks_again_while_the_repository_is_fetched(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.problem(503, "unavailable", "the repository is still being fetched", is_fetching=True),
        lambda asked: asked.answer(200, PREVIEW),
        lambda asked: asked.problem(503, "unavailable", "the database is away"),
    )
    assert "it is taken" in terracrew("discovery", "preview", "shop/infra")
    terracrew("discovery", "preview", "shop/infra")
    assert terracrew.code == 6
    assert "the database is away" in terracrew.err


def test_a_preview_that_makes_nothing_says_why(terracrew: Terracrew, server: ScriptedServer) -> None:
    refused: dict[str, Any] = PREVIEW | {"problem": "it would make 812 modules at once", "folders": []}
    server.then(lambda asked: asked.answer(200, refused), lambda asked: asked.answer(200, PREVIEW))
    terracrew("discovery", "preview", "shop/infra")
    assert "Nothing is made: it would make 812 modules at once" in terracrew.err
    out = json.loads(terracrew("discovery", "preview", "shop/infra", "--include", "prod/*", "--json"))
    assert [each["state"] for each in out["folders"]] == ["new", "conflict"]
