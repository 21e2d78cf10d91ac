"""Real engines at a terminal keep their state here by the backend `http`: lock, plan, apply, kill, force-unlock and migration."""

import json
import os
import signal
import subprocess

import pytest

from tests.e2e import state_server
from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually
from tests.machine.s3 import s3_emulator

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.feature("J15.lock")]
NOTE = 'variable "note" { default = "first" }\nresource "terraform_data" "one" { input = var.note }\n'
OUTPUT = 'output "note" { value = var.note }\n'
SLOW = """
resource "terraform_data" "slow" {
  triggers_replace = var.note
  provisioner "local-exec" { command = "touch ../started; until [ -f ../go ]; do sleep 0.05; done" }
}
"""
S3 = """
terraform {
  backend "s3" {
    bucket                      = "states"
    key                         = "network.tfstate"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_requesting_account_id  = true
    skip_metadata_api_check     = true
  }
}
"""


class Terminal:
    """A folder in which somebody runs the engine."""

    def __init__(self, system: System, tofu: str, name: str, configuration: str) -> None:
        self.folder, self.tofu = system.directory / name, tofu
        self.folder.mkdir()
        (self.folder / "main.tf").write_text(configuration)
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        self.env |= {"TF_HTTP_USERNAME": "token", "TF_HTTP_PASSWORD": (system.data / "admin.token").read_text().strip()}
        self.env |= {"TF_HTTP_RETRY_MAX": "0", "TF_IN_AUTOMATION": "1"}

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [self.tofu, *words, "-no-color"],
            cwd=self.folder,
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, *words: str, code: int = 0) -> str:
        process = self.start(*words)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == code, out
        return out


def backend(system: System, module: str = "m") -> str:
    """The block that keeps the state of a module here."""
    addresses = "".join(
        f'    {name} = "{system.url}/api/v1/modules/{module}/state"\n'
        for name in ("address", "lock_address", "unlock_address")
    )
    return 'terraform {\n  backend "http" {\n' + addresses + "  }\n}\n"


def lock(system: System) -> dict[str, str] | None:
    found = system.api.get("/modules/m")["lock"]
    return found and found["person"]


def test_engines_work_here_one_at_a_time_and_jobs_wait_for_them(system: System, tofu: str) -> None:
    system.start_server(runner=True)
    system.module("m", backend(system) + NOTE + OUTPUT + SLOW.replace("until [ -f ../go ]", "until true"))
    ann, bob = (Terminal(system, tofu, name, backend(system) + NOTE + OUTPUT + SLOW) for name in ("ann", "bob"))
    for each in (ann, bob):
        each.run("init")
    applying = ann.start("apply", "-auto-approve")
    eventually(lambda: (system.directory / "started").exists(), what="the provisioner")
    held = lock(system)
    assert held is not None
    assert (held["operation"], held["holder_name"]) == ("OperationTypeApply", "admin")
    refused = bob.run("plan", code=1)
    assert "already locked" in refused
    assert held["client_lock_id"] in refused
    job = system.run("m")
    reason = system.job(job)["reason"]
    assert (reason["code"], reason["text"]) == ("locked", "the module is locked by admin's terminal")
    (system.directory / "go").touch()
    out, _ = applying.communicate(timeout=60)
    assert applying.returncode == 0, out
    assert lock(system) is None
    done = system.wait(job)
    assert done["status"] == "SUCCEEDED", system.log(job)
    assert (done["plan"]["add"], done["plan"]["change"], done["plan"]["destroy"]) == (0, 0, 0), (
        "it plans from that state"
    )
    assert bob.run("output", "-raw", "note") == "first"
    newest = system.api.get("/modules/m/states")["items"][0]
    assert (newest["origin"], newest["status"]) == ("terminal", "current")
    applied = system.wait(system.run("m", "APPLY", inputs={"note": "second"}))
    assert applied["status"] == "SUCCEEDED", "nothing asked for an approval"
    assert bob.run("state", "show", "terraform_data.one").count("second") == 2


def test_a_terminal_that_was_killed_keeps_the_lock_until_force_unlock(system: System, tofu: str) -> None:
    system.start_server(runner=False)
    system.module("m", NOTE)
    ann = Terminal(system, tofu, "ann", backend(system) + NOTE + SLOW)
    ann.run("init")
    applying = ann.start("apply", "-auto-approve")
    eventually(lambda: (system.directory / "started").exists(), what="the provisioner")
    os.killpg(applying.pid, signal.SIGKILL)
    applying.communicate()
    held = lock(system)
    assert held is not None
    assert "Unexpected HTTP response code 423" in ann.run("force-unlock", "-force", "another", code=1)
    ann.run("force-unlock", "-force", held["client_lock_id"])
    assert lock(system) is None
    assert system.api.get("/modules/m")["lock_doubt"] == "the lock that admin's terminal held was removed by force"
    (system.directory / "go").touch()
    assert "Error" in ann.run("apply", "-auto-approve", "-lock=false", code=1), "a state is written under a lock only"
    assert (ann.folder / "errored.tfstate").exists(), "the engine keeps what it could not write"
    ann.run("apply", "-auto-approve", "-var=note=again")
    assert len(system.state("m")["resources"]) == 2
    assert system.api.get("/modules/m")["lock_doubt"] == "", "that one ended in order"


def test_an_interrupted_apply_saves_its_state_and_releases_the_lock(system: System, tofu: str) -> None:
    system.start_server(runner=False)
    system.module("m", NOTE)
    ann = Terminal(system, tofu, "ann", backend(system) + NOTE + SLOW)
    ann.run("init")
    applying = ann.start("apply", "-auto-approve")
    eventually(lambda: (system.directory / "started").exists(), what="the provisioner")
    applying.send_signal(signal.SIGINT)
    (system.directory / "go").touch()
    applying.communicate(timeout=60)
    assert lock(system) is None
    assert "terraform_data.one" in ann.run("state", "list")


def test_states_move_in_from_local_and_http_and_out_again_and_others_read_them(system: System, tofu: str) -> None:
    system.start_server(runner=False)
    system.module("m", NOTE)
    system.module("n", NOTE)
    ann = Terminal(system, tofu, "ann", NOTE + OUTPUT)
    ann.run("init")
    ann.run("apply", "-auto-approve")
    here = ann.folder / "backend.tf"
    here.write_text(backend(system))
    ann.run("init", "-migrate-state", "-force-copy")
    assert system.state("m")["outputs"]["note"]["value"] == "first"
    assert "No changes" in ann.run("plan")
    with state_server.running() as other:
        bob = Terminal(system, tofu, "bob", other.block + NOTE)
        bob.run("init")
        bob.run("apply", "-auto-approve", "-var=note=other")
        (bob.folder / "main.tf").write_text(backend(system, "n") + NOTE)
        bob.run("init", "-migrate-state", "-force-copy")
    assert system.state("n")["resources"] == json.loads(other.state)["resources"]
    values = {
        "address": f"{system.url}/api/v1/modules/m/state",
        "username": "me",
        "password": ann.env["TF_HTTP_PASSWORD"],
    }
    config = "\n".join(f"      {name} = {json.dumps(value)}" for name, value in values.items())
    reader = 'data "terraform_remote_state" "m" {\n  backend = "http"\n  config = {\n' + config + "\n  }\n}\n"
    reading = Terminal(
        system, tofu, "reading", reader + 'output "it" { value = data.terraform_remote_state.m.outputs.note }\n'
    )
    reading.run("init")
    assert 'it = "first"' in reading.run("apply", "-auto-approve")
    here.unlink()
    ann.run("init", "-migrate-state", "-force-copy")
    moved = json.loads((ann.folder / "terraform.tfstate").read_text())
    assert moved["lineage"] == system.state("m")["lineage"]
    assert "No changes" in ann.run("plan")
    assert lock(system) is None


def test_a_state_moves_in_from_s3_where_engines_had_locked_it(system: System, tofu: str) -> None:
    system.start_server(runner=False)
    system.module("m", NOTE)
    with s3_emulator() as store:
        store.make_bucket("states")
        ann = Terminal(system, tofu, "ann", S3 + NOTE + OUTPUT)
        ann.env |= store.environment
        ann.run("init")
        ann.run("apply", "-auto-approve")
        (ann.folder / "main.tf").write_text(backend(system) + NOTE + OUTPUT)
        ann.run("init", "-migrate-state", "-force-copy")
    assert system.state("m")["outputs"]["note"]["value"] == "first"
    assert "No changes" in ann.run("plan"), "the store is away, and nothing asks for it"
    assert lock(system) is None


def test_a_state_is_pulled_pushed_and_repaired_by_the_command_line(system: System, tofu: str) -> None:
    system.start_server(runner=False)
    system.module("m", NOTE)
    ann = Terminal(system, tofu, "ann", backend(system) + NOTE)
    ann.run("init")
    ann.run("apply", "-auto-approve")
    pulled = json.loads(terracrew(system, "state", "pull", "m"))
    said = terracrew(system, "state", "mv", "m", "terraform_data.one", "terraform_data.two")
    assert "moved terraform_data.one to terraform_data.two; version 2 is the state of m now" in said
    after = system.state("m")
    assert ([each["name"] for each in after["resources"]], after["lineage"]) == (["two"], pulled["lineage"])
    assert "the engine has refused" in terracrew(system, "state", "rm", "m", "terraform_data.none", "--yes", code=2)
    terracrew(system, "state", "rm", "m", "terraform_data.two", "--yes")
    assert system.state("m")["resources"] == []
    file = system.directory / "state.json"
    file.write_text(json.dumps(pulled))
    assert "so it is not newer" in terracrew(system, "state", "push", "m", str(file), code=5)
    assert lock(system) is None, "what was refused leaves no lock behind"
    file.write_text(json.dumps(pulled | {"serial": system.state("m")["serial"] + 1}))
    assert "wrote version 4" in terracrew(system, "state", "push", "m", str(file))
    assert "No changes" in ann.run("plan")
    assert lock(system) is None
