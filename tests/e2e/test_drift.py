"""Drift of real resources: what people change by hand is told once by a signed webhook, muted, and put right by an apply."""

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.approvals import approve
from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually
from tests.machine import providers

FILES = """
resource "testing_file" "each" {
  for_each  = toset(["a", "b", "c"])
  directory = "%s"
  name      = each.key
  content   = "as written"
}
"""


class Hook:
    """A program that gets notifications, and keeps those whose signatures are right."""

    def __init__(self) -> None:
        self.url, self.secret = "", ""
        self.titles: list[str] = []

    def take(self, headers: Any, body: bytes) -> int:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        if headers["webhook-signature"] != expected:
            return 401
        self.titles.append(json.loads(body)["data"]["title"])
        return 204


@contextmanager
def hook() -> Generator[Hook]:
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(found.take(self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        yield found
        server.shutdown()


def checked(system: System, after: int) -> dict[str, Any]:
    """The drift of the module, as soon as it was checked more often than this."""

    def found() -> dict[str, Any] | None:
        drift = system.api.get("/drift/modules/app")
        return drift if len(drift["results"]) > after else None

    return eventually(found, what=f"check {after + 1}")


@pytest.mark.engine
@pytest.mark.timeout(120)
@pytest.mark.feature("M2.difference", "M2.refresh", "M2.mutes", "M2.reconcile", "M3.webhook")
def test_what_was_changed_by_hand_is_told_once_muted_and_put_right(system: System, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    providers.configuration(tmp_path).rename(tmp_path / ".tofurc")  # the home directory of the built-in runner
    system.env["TERRACREW_SERVER_PRIVATE_DESTINATIONS"] = "127.0.0.1"
    system.start_server(runner=True)
    system.module("app", providers.required("testing") + FILES % made, needs_approval=True)
    with hook() as receiver:
        wanted = {"name": "ops", "kind": "webhook", "url": receiver.url, "events": ["drift"], "place": "app"}
        receiver.secret = system.api.post("/notification-channels", wanted)["secret"]
        first = system.run("app", "APPLY")
        eventually(lambda: system.status(first) == "AWAITING_APPROVAL", what="the plan")
        approve(system, first)
        assert system.wait(first)["status"] == "SUCCEEDED", system.log(first)

        files = {json.loads(path.read_text())["name"]: path for path in made.iterdir()}
        files["a"].write_text(json.dumps({"name": "a", "content": "by hand"}))
        files["b"].unlink()
        terracrew(system, "drift", "check", "app")
        found = checked(system, after=0)
        assert [(each["address"], each["action"]) for each in found["items"]] == [
            ('testing_file.each["a"]', "update"),
            ('testing_file.each["b"]', "delete"),
        ], found
        terracrew(system, "drift", "check", "app")
        assert checked(system, after=1)["results"][0]["differences"] == [], "the second check finds the same"
        terracrew(system, "drift", "mute", "app", 'testing_file.each["b"]', "--reason", "it moves to another module")
        [row] = json.loads(terracrew(system, "drift", "list", "--json"))
        assert (row["path"], row["drifted"], row["muted"]) == ("app", 1, 1)

        reconciling = json.loads(terracrew(system, "drift", "reconcile", "app", "--json"))["id"]
        eventually(lambda: system.status(reconciling) == "AWAITING_APPROVAL", what="the plan of the apply")
        approve(system, reconciling)
        assert system.wait(reconciling)["status"] == "SUCCEEDED", system.log(reconciling)
        last = checked(system, after=2)
        assert (last["drifted"], last["items"]) == (0, [])
        contents = {each["name"]: each["content"] for each in (json.loads(path.read_text()) for path in made.iterdir())}
        assert contents == dict.fromkeys("abc", "as written")
        eventually(lambda: len(receiver.titles) == 2, what="the message about the end of the drift")
        assert receiver.titles == ["Drift: 2 new", "Drift: 1 gone"]
