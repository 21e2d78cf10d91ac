"""Drift on the command line."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from terracrew.api.drift import DriftItemView, DriftMute, DriftResult, ModuleDrift, ModuleDriftView
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

MUTE = answer(DriftMute, id="mut_1", address="aws_vpc.main", reason="tags", until="2026-12-01T00:00:00Z")
SHOWN: dict[str, Any] = {"path": "shop/net", "drifted": 1, "new": 1, "changed": 0, "gone": 2, "muted": 1}
MODULE = answer(ModuleDrift, **SHOWN, problem="the plan failed")
ITEMS = [
    answer(DriftItemView, address="aws_vpc.main", action="update", mute=MUTE),
    answer(DriftItemView, address="aws_s3_bucket.logs", action="delete", mute=None),
]
VIEW = answer(ModuleDriftView, **SHOWN, problem="", items=ITEMS, mutes=[MUTE], results=[], check=None)
pytestmark = pytest.mark.feature("M2.fleet", "E1.commands")


def test_modules_with_drift_are_listed_with_what_the_last_check_has_found(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    asked: list[str] = []

    def reply(request: Any) -> Any:
        asked.append(request.path)
        return request.answer(200, {"items": [MODULE] if "failed" in request.path else []})

    server.then(reply, reply)
    assert "no module has drift" in terracrew("drift", "list", "shop") + terracrew.err
    out = terracrew("drift", "list", "--failed")
    assert "1 new, 2 gone" in out
    assert "shop/net: the plan failed" in out + terracrew.err
    assert ["only=drifted" in asked[0], "place=shop" in asked[0], "only=failed" in asked[1]] == [True] * 3


def test_a_module_shows_its_addresses_and_their_mutes(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, VIEW))
    out = terracrew("drift", "show", "shop/net")
    assert "until 2026-12-01: tags" in out
    assert "aws_s3_bucket.logs  delete" in out


def test_an_address_of_a_check_that_only_refreshed_was_changed_outside(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    """`delete` was read as what Terracrew is going to do."""
    failed = answer(DriftResult, problem="the plan failed", is_refresh_only=False)
    results = [failed, answer(DriftResult, problem="", is_refresh_only=True)]
    server.then(lambda asked: asked.answer(200, VIEW | {"results": results}))
    out = terracrew("drift", "show", "shop/net")
    assert "aws_s3_bucket.logs  deleted outside" in out
    assert "aws_vpc.main        changed outside" in out


@pytest.mark.feature("M2.mutes")
def test_an_address_is_muted_for_some_days_and_unmuted_by_its_address(
    terracrew: Terracrew, server: ScriptedServer
) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append((asked.method, asked.path, asked.body))
        return asked.answer(200, MUTE if asked.method == "POST" else VIEW)

    server.then(*[reply] * 4)
    out = terracrew("drift", "mute", "shop/net", "aws_vpc.main", "--days", "14", "--reason", "tags")
    assert out == "muted aws_vpc.main of shop/net until 2026-12-01\n"
    until = datetime.fromisoformat(json.loads(bodies[0][2])["until"])
    assert timedelta(days=13, hours=23) < until - datetime.now(UTC) < timedelta(days=14)
    terracrew("drift", "unmute", "shop/net", "aws_vpc.main")
    assert bodies[2][:2] == ("DELETE", "/api/v1/drift/mutes/mut_1")
    terracrew("drift", "unmute", "shop/net", "aws_s3_bucket.logs")
    assert terracrew.code == 4
    assert "is not muted: muted are aws_vpc.main" in terracrew.err


def test_a_check_is_asked_for_by_place(terracrew: Terracrew, server: ScriptedServer) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append(json.loads(asked.body))
        return asked.answer(202, {"modules": 12})

    server.then(reply)
    assert terracrew("drift", "check", "shop", "--full") == "asked for 12 drift checks\n"
    assert bodies == [{"place": "shop", "is_refresh_only": False}]
