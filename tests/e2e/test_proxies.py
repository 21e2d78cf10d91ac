"""A whole Terracrew behind real reverse proxies: nginx as people set it up first, and the configurations of deploy/."""

import os
import random
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from terracrew.client.http import Api
from terracrew.protocol.transfers import PART_BYTES
from terracrew.source_rules import archive
from tests.e2e.proxies import minimal_nginx, recommended_caddy, recommended_nginx
from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

_NOBODY_LISTENS = 9
"""A port without a server: what a proxy forwards is answered 502."""
Proxy = Callable[[Path, int], AbstractContextManager[str]]
MAIN = """
resource "terraform_data" "large" {
  input = join("", [for i in range(1000) : join("", [for j in range(60) : "0123456789012345678901234567890123456789"])])
  provisioner "local-exec" { command = "echo applied >> @WITNESS@; echo at the gate; read line < @GATE@" }
}
"""


@pytest.mark.feature("J5.archive", "J15.kept", "L4.finished", "O1.continues")
@pytest.mark.parametrize(
    "proxy",
    [minimal_nginx, pytest.param(recommended_nginx, marks=thorough), pytest.param(recommended_caddy, marks=thorough)],
)
@pytest.mark.timeout(150)
def test_a_large_module_is_planned_approved_and_applied_once_through_a_proxy(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxy: Proxy
) -> None:
    """nginx accepts 1 MiB by default: a state of 2.4 MB never arrived, and the apply was repeated five times."""
    directory, witness, gate = tmp_path / "proxy", tmp_path / "witness", tmp_path / "gate"
    directory.mkdir()
    os.mkfifo(gate)
    system.start_server(runner=False)
    with proxy(directory, system.port) as url:
        if url.startswith("https"):
            monkeypatch.setenv("SSL_CERT_FILE", str(directory / "tls.crt"))
            system.env["SSL_CERT_FILE"] = str(directory / "tls.crt")
        system.url = url
        system.start_runner(system.register_runner())

        # An archive and a kept plan that are larger than one part.
        source = tmp_path / "large"
        source.mkdir()
        (source / "noise").write_bytes(random.Random(8).randbytes(2 * PART_BYTES))
        (source / "main.tf").write_text(MAIN.replace("@WITNESS@", str(witness)).replace("@GATE@", str(gate)))
        arrived = list[int]()
        data = archive.pack(source)
        made = system.api.upload_in_parts(
            "/archives", data, "application/gzip", target="archive", progress=arrived.append
        )
        assert arrived[0] == 0
        assert arrived[-1] == len(data) > PART_BYTES
        module = {"path": "large", "engine": "tofu", "source": {"kind": "archive", "archive_id": made["id"]}}
        system.api.post("/modules", {**module, "needs_approval": True})

        job = system.run("large", "APPLY")
        eventually(lambda: system.status(job) == "AWAITING_APPROVAL", what="a plan to approve")
        [plan] = (system.data / "objects" / "plans").glob("*/*/*")
        assert plan.stat().st_size > PART_BYTES

        lines, is_live = list[str](), threading.Event()
        following = threading.Thread(target=_follow, args=(system.api, job, lines, is_live), daemon=True)
        following.start()
        system.api.post(f"/jobs/{job}/approve", {"plan": 1})
        assert is_live.wait(60), "a line was not seen while the engine was held"
        with gate.open("w") as held:
            held.write("go\n")
        ended = system.wait(job)
        assert ended["status"] == "SUCCEEDED", ended["message"]
        assert [attempt["number"] for attempt in ended["attempts"]] == [1, 2]
        assert witness.read_text().split() == ["applied"]
        assert len(system.state("large")["resources"][0]["instances"][0]["attributes"]["input"]["value"]) == 2_400_000
        following.join(20)
        assert any("Apply complete!" in line for line in lines)
        assert list((system.data / "objects" / "parts").rglob("[0-9]*")) == [], "no part is left"


@pytest.mark.parametrize("proxy", [recommended_nginx, recommended_caddy])
def test_a_recommended_proxy_keeps_the_metrics_to_itself_and_asks_for_https(tmp_path: Path, proxy: Proxy) -> None:
    """`/metrics/` with a slash at its end was forwarded, and the server answered it like `/metrics`."""
    with (
        proxy(tmp_path, _NOBODY_LISTENS) as url,
        httpx.Client(timeout=20, verify=ssl.create_default_context(cafile=tmp_path / "tls.crt")) as client,
    ):
        for path in ("/metrics", "/metrics/", "//metrics", "/%6detrics/"):
            answer = client.get(url + path)
            assert (path, answer.status_code) == (path, 404)
            assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


def _follow(api: Api, job: str, lines: list[str], is_live: threading.Event) -> None:
    for event in api.events(f"/jobs/{job}/log/stream"):
        lines.append(event.data)
        if "at the gate" in event.data.replace("echo at the gate", ""):
            is_live.set()
        if event.name == "end":
            return
