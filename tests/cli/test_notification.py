"""Channels of notifications on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.api.notifications import Channel, NotificationDelivery
from tests.cli.answers import answer
from tests.cli.conftest import Terracrew
from tests.client.scripted_server import ScriptedServer

VIEW = answer(
    Channel,
    id="nch_1",
    path="shop",
    name="ops",
    kind="slack",
    events=["drift", "release"],
    is_enabled=False,
    target="slack.com",
    slack_channel="C1",
    recipients=[],
    created_by_name="olga",
    created_at="2026-11-01T08:00:00Z",
)
DELIVERY = answer(
    NotificationDelivery,
    notification_id="ntf_1",
    event="drift",
    path="shop/network",
    content={"title": "Drift of 2 resources", "text": "", "link": "", "facts": {}},
    status="GIVEN_UP",
    tries=31,
    answer_status=503,
    error="the receiver answered 503",
    created_at="2026-11-01T08:00:00Z",
    next_at=None,
    sending_until=None,
)
pytestmark = pytest.mark.feature("M3.channels", "E1.commands")


def test_a_channel_is_created_with_secrets_from_files_and_its_own_is_shown_once(
    terracrew: Terracrew, server: ScriptedServer, tmp_path: Path
) -> None:
    bodies: list[Any] = []

    def reply(asked: Any) -> Any:
        bodies.append((asked.method, asked.path, json.loads(asked.body)))
        return asked.answer(200, {"channel": VIEW, "secret": "whsec_abc"})

    server.then(reply, lambda asked: asked.answer(200, VIEW))
    url, token = tmp_path / "url", tmp_path / "token"
    url.write_text("https://hooks.example/s3cret\n")
    token.write_text("xoxb-s3cret\n")
    files = ("--url-file", str(url), "--token-file", str(token))
    said = terracrew("notification", "create", "ops", "--kind", "slack", "--place", "shop", "--event", "drift", *files)
    assert said == "created the channel shop/ops\n"
    assert "whsec_abc" in terracrew.err
    assert "s3cret" not in said + terracrew.err
    [(method, path, body)] = bodies
    assert (method, path) == ("POST", "/api/v1/notification-channels")
    assert body["url"] == "https://hooks.example/s3cret"
    assert (body["token"], body["events"], body["place"]) == ("xoxb-s3cret", ["drift"], "shop")
    assert "shop/ops" in terracrew("notification", "update", "shop/ops", "--no-enabled")
    terracrew("notification", "update", "shop/ops")
    assert "changes it: see `terracrew notification update --help`" in terracrew.err


def test_channels_are_listed_and_shown(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(lambda asked: asked.answer(200, {"items": [VIEW], "next": None}), lambda asked: asked.answer(200, VIEW))
    listed = terracrew("notification", "list", "shop")
    assert "shop/ops" in listed
    assert "disabled" in listed
    shown = terracrew("notification", "show", "shop/ops")
    assert "C1 at slack.com" in shown
    assert "drift, release" in shown


def test_a_test_that_did_not_arrive_ends_with_1(terracrew: Terracrew, server: ScriptedServer) -> None:
    failed = {"is_delivered": False, "answer_status": 403, "error": "the receiver answered 403"}
    delivered = {"is_delivered": True, "answer_status": 200, "error": ""}
    server.then(lambda asked: asked.answer(200, failed), lambda asked: asked.answer(200, delivered))
    terracrew("notification", "test", "shop/ops")
    assert (terracrew.code, terracrew.err) == (1, "not delivered: the receiver answered 403\n")
    terracrew("notification", "test", "shop/ops")
    assert (terracrew.code, terracrew.err) == (0, "delivered (answer 200)\n")


def test_deliveries_are_listed_and_sent_again(terracrew: Terracrew, server: ScriptedServer) -> None:
    asked_for: list[str] = []

    def again(asked: Any) -> Any:
        asked_for.append(asked.path)
        return asked.answer(200, DELIVERY)

    server.then(lambda asked: asked.answer(200, {"items": [DELIVERY], "next": None}), again)
    listed = terracrew("notification", "deliveries", "shop/ops")
    for part in ("ntf_1", "shop/network: Drift of 2 resources", "GIVEN_UP", "503"):
        assert part in listed
    assert terracrew("notification", "send-again", "shop/ops", "ntf_1") == "ntf_1 is sent again\n"
    assert asked_for == ["/api/v1/notification-channels/shop%2Fops/deliveries/ntf_1/send-again"]


def test_a_channel_is_deleted_and_a_secret_replaced(terracrew: Terracrew, server: ScriptedServer) -> None:
    server.then(
        lambda asked: asked.answer(200, {"channel": VIEW, "secret": "whsec_new"}),
        lambda asked: asked.answer(204, None),
    )
    terracrew("notification", "replace-secret", "shop/ops")
    assert "whsec_new" in terracrew.err
    assert terracrew("notification", "delete", "shop/ops", "--yes") == "deleted shop/ops\n"
