"""The object store is killed under a system of real processes, and nothing is lost; a server with another store does not start."""

import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3

from terracrew.protocol.transfers import PART_BYTES
from terracrew.source_rules import archive
from tests.e2e import modules
from tests.e2e.backups import terracrew
from tests.e2e.system import System, eventually
from tests.machine.s3 import CutStore, s3_emulator
from tests.thoroughness import thorough

pytestmark = pytest.mark.engine
STATE_BYTES = 20_000_000
MAIN = """
resource "terraform_data" "large" {
  input = sensitive(file("${path.module}/text"))
  provisioner "local-exec" { command = "echo at the gate; read line < @GATE@" }
}
"""


@pytest.fixture
def s3() -> Iterator[CutStore]:
    with s3_emulator() as store:
        yield store


@pytest.mark.feature("O6.store", "J15.kept", "O1.continues")
def test_a_store_that_is_killed_under_an_apply_and_an_upload_costs_nothing_but_the_time(
    system: System, s3: CutStore, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    system.env |= s3.environment | {"TERRACREW_SERVER_OBJECT_STORE": s3.make_bucket("terracrew")}
    server = system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    _source(system.directory / "source" / "large", {"text": b"0123456789" * (STATE_BYTES // 20)})
    system.module("large", MAIN.replace("@GATE@", str(gate)))
    system.module("small", modules.quick())
    job = system.run("large", "APPLY")
    eventually(lambda: "at the gate" in system.log(job).replace("echo at the gate", ""), what="the apply")

    # In the middle of the delivery of the state.
    s3.cut_after(STATE_BYTES // 4)
    with gate.open("w") as held:
        held.write("go\n")
    assert s3.is_cut.wait(60)
    eventually(lambda: _ready(system)[0] == 503, what="readiness that says it")
    assert "object store" in _ready(system)[1]
    waiting = system.run("small")  # its archive is in the store
    eventually(lambda: system.status(waiting) == "PROCESSING", what="a job that waits for its archive")
    assert system.status(job) == "PROCESSING"
    s3.open()
    ended = system.wait(job, within=90)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended["message"]
    assert system.wait(waiting)["status"] == "SUCCEEDED"
    values = system.state("large")["resources"][0]["instances"][0]["attributes"]
    assert len(values["input"]["value"]) + len(values["output"]["value"]) == STATE_BYTES
    assert "Apply complete!" in system.log(job)

    # In the middle of an upload.
    noise = {"main.tf": b"", "noise": random.Random(3).randbytes(4 * PART_BYTES)}
    data = archive.pack(_source(tmp_path / "noise", noise))
    s3.cut_after(5 * PART_BYTES // 2)
    reopening = threading.Thread(target=lambda: s3.is_cut.wait(60) and s3.open())
    reopening.start()
    made = system.api.upload_in_parts("/archives", data, "application/gzip", target="archive")
    reopening.join(60)
    assert made["size"] == len(data)
    assert "answered 503: the object store does not answer" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()
    assert runner.log.read_text().count("connected to") == 1, "the runner's connection was kept"


@pytest.mark.feature("O6.store")
@thorough
def test_a_server_with_another_store_does_not_start_until_a_person_says_that_this_is_meant(
    system: System, tmp_path: Path
) -> None:
    """Two servers with a folder each started, and a job of one failed on the other: "no object archives/arc_… is stored"."""
    server = system.start_server(runner=False)
    system.module("small", modules.quick())
    server.stop()
    other = (tmp_path / "other").as_uri()
    options = ("server", "--data-dir", str(system.data), "--port", str(system.port), "--object-store", other)
    said = terracrew(system, *options, code=2)
    assert f"{other} on " in said
    assert "is not the object store of this database" in said
    assert (system.data / "objects").as_uri() in said
    assert "adopt-object-store" in said

    shutil.copytree(system.data / "objects" / "archives", tmp_path / "other" / "archives")
    said = terracrew(system, *options, "adopt-object-store", "--yes")
    assert "has 1 of 1 objects" in said
    assert f"{(tmp_path / 'other').as_uri()}" in said
    assert "is the object store of the database already" in terracrew(system, *options, "adopt-object-store")
    assert "is not the object store of this database: its id is" in terracrew(
        system, "server", "--data-dir", str(system.data), "--port", str(system.port), code=2
    )
    system.env["TERRACREW_SERVER_OBJECT_STORE"] = other
    system.start_server(runner=True)
    assert system.wait(system.run("small"))["status"] == "SUCCEEDED"


def _ready(system: System) -> tuple[int, str]:
    answer = urllib3.request("GET", f"{system.url}/readyz", retries=False, timeout=20)
    return answer.status, answer.json().get("detail", "")


def _source(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder
