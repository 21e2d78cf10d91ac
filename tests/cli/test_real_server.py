"""The command line against a real server, runner and OpenTofu, as processes of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from terracrew.demo.machine import Machine
from terracrew.demo.samples import FOLDER
from tests.e2e.system import free_port
from tests.machine.forks import process

pytestmark = [pytest.mark.engine, pytest.mark.feature("E1.commands")]
STATE_DIRECTORY = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
"""Where the server of these tests leaves its note, before each test gets a home of its own."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(free_port(), tmp_path_factory.mktemp("server"))
    try:
        machine.start()
        yield machine
    finally:
        machine.stop()


@pytest.fixture
def called(machine: Machine, home: Path, monkeypatch: pytest.MonkeyPatch) -> "Called":
    monkeypatch.setenv("TERRACREW_URL", machine.url)
    return Called(["--token-file", str(machine.directory / "admin.token")])


class Called:
    def __init__(self, options: list[str]) -> None:
        self.options = options

    def __call__(self, *arguments: str, code: int = 0) -> str:
        ended, out, err = process.run([*self.options, *arguments], dict(os.environ), 90)
        assert ended == code, out + err
        return out


@pytest.mark.feature("J2.transitions", "J12.stored", "J15.versions", "L4.finished")
def test_a_folder_becomes_a_module_is_applied_and_can_be_read(called: Called) -> None:
    called("module", "create", "platform/network", "-p", "--from", str(FOLDER / "network"), "--var", 'zones=["x", "y"]')
    log = called("job", "run", "platform/network", "--apply", "--follow")
    assert "Apply complete! Resources: 4 added" in log
    assert json.loads(called("module", "outputs", "platform/network", "subnets", "--json")) == {
        "x": "10.20.0.0/24",
        "y": "10.20.1.0/24",
    }
    (job,) = json.loads(called("job", "list", "--module", "platform/network", "--json"))
    assert (job["status"], job["type"], job["plan"]["add"]) == ("SUCCEEDED", "APPLY", 4)
    assert (job["runner_path"], job["instance_name"]) == ("built-in", "server"), "the page of jobs shows them, too"
    filters = ("--type", "apply", "--runner", "built-in", "--since", "1d")
    assert [each["id"] for each in json.loads(called("job", "list", *filters, "--json"))] == [job["id"]]
    for none in (("--type", "destroy"), ("--who", "nobody"), ("--until", "1d")):
        assert json.loads(called("job", "list", *none, "--json")) == [], none
    assert called("job", "logs", job["id"]) == log == called("job", "logs", "-f", job["id"])
    assert len(json.loads(called("module", "state", "platform/network"))["resources"]) == 3
    called("job", "wait", job["id"], "--timeout", "30")
    assert "No changes." in called("job", "run", "platform/network", "--follow")
    assert "0 added, 0 changed, 4 destroyed." in called("job", "run", "platform/network", "--destroy", "--yes", "-f")


@pytest.mark.feature("E1.codes")
def test_a_job_that_fails_says_so_in_the_exit_code(called: Called) -> None:
    called("module", "create", "payments/broken", "-p", "--from", str(FOLDER / "broken"))
    assert "Payment records must be kept" in called("job", "run", "payments/broken", "--apply", "--follow", code=10)
    called("job", "run", "payments/broken", "--wait", code=10)


@pytest.mark.feature("J9.modes")
def test_a_job_is_cancelled_while_it_is_followed(called: Called) -> None:
    called("module", "create", "platform/slow", "-p", "--from", str(FOLDER / "chatty"), "--var", "tables=2000")
    job = called("job", "run", "platform/slow", "--apply").strip()
    command = [sys.executable, "-m", "terracrew.cli", *called.options, "job", "logs", "-f", job]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        for line in following.stdout:
            if "table 02 of" in line:
                break
        called("job", "cancel", job, "--mode", "kill")
        following.communicate(timeout=60)
        assert following.returncode == 11


def test_what_the_server_refuses_is_a_message_and_a_code(called: Called) -> None:
    called("group", "create", "a/b/c", code=4)
    called("group", "create", "a/b/c", "--parents")
    called("group", "create", "a/b/c", code=5)
    called("group", "delete", "a/b", code=5)
    called("module", "create", "a/../b", "--path", "/etc", code=2)
    called("module", "show", "nothing/here", code=4)


def test_a_token_works_until_it_is_revoked(called: Called, tmp_path: Path) -> None:
    made = json.loads(called("token", "create", "ci", "--json"))
    file = tmp_path / "token"
    file.write_text(made["token"])
    other = Called(["--token-file", str(file)])
    assert "ci" in other("token", "list")
    called("token", "revoke", made["id"])
    other("token", "list", code=3)


def test_a_login_link_is_made_while_the_server_runs(
    called: Called, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was refused, because a running server on SQLite owns its database."""
    command = ("server", "--data-directory", str(machine.directory), "admin-link")
    called(*command, code=5)  # the home of this test has no note of a running server
    monkeypatch.setenv("XDG_STATE_HOME", STATE_DIRECTORY)
    link = json.loads(called(*command, "--json"))["link"]
    assert link.startswith(f"{machine.url}/login/link/tcl_")
    page = httpx.get(link)
    assert (page.status_code, "admin" in page.text) == (200, True)
