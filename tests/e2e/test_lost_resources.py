"""What a killed engine made and no state records is imported by the next plan, so that each resource exists once."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from terracrew.attempt import files
from tests.e2e.system import System, eventually
from tests.machine import providers
from tests.thoroughness import thorough

COUNT = 10
SAID = "Creation complete after"
FILES = """
resource "testing_file" "each" {
  count     = %d
  directory = "%s"
  name      = "file-${count.index}"
  wait_for  = count.index < %d ? null : "%s"
}
"""


class Site:
    """An apply of ten files, of which some are made, and the others wait in the middle."""

    def __init__(self, system: System, tmp_path: Path, *, made_count: int = 6) -> None:
        self.system, self.made_count = system, made_count
        self.directory, self.gate = tmp_path / "made", tmp_path / "gate"
        self.directory.mkdir()
        files = FILES % (COUNT, self.directory, made_count, self.gate)
        system.module("app", providers.required("testing") + files)

    def start(self) -> str:
        """Run an apply up to its middle: the first files exist, and their lines are on the server."""
        job = self.system.run("app", "APPLY")
        eventually(lambda: self.system.log(job).count(SAID) == self.made_count, what="the middle of the apply")
        return job

    def kill(self, job: str, *, with_executor: bool, attempt: int = 1) -> None:
        leader = self.system.executor(job, attempt)
        if with_executor:
            pids = [leader, *_session(leader)]
        else:
            found = subprocess.run(
                ["pgrep", "-s", str(leader), "-x", "tofu"], capture_output=True, text=True, check=True
            )
            pids = [int(pid) for pid in found.stdout.split()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    @property
    def names(self) -> Counter[str]:
        return Counter(json.loads(file.read_text())["name"] for file in self.directory.iterdir())

    def lost(self, job: str) -> list[dict[str, Any]]:
        return list(self.system.api.list(f"/jobs/{job}/lost-resources"))

    def waiting(self, job: str) -> dict[str, Any] | None:
        found = self.system.job(job)
        return found if found["status"] == "AWAITING_APPROVAL" else None

    def import_lost(self, job: str = "") -> dict[str, Any]:
        """Apply with what the job lost, and approve the plan."""
        self.gate.touch()
        waiting = self.approve_import(job)
        assert self.system.wait(waiting["id"])["status"] == "SUCCEEDED"
        return waiting["plan"]

    def approve_import(self, job: str = "") -> dict[str, Any]:
        importing = self.system.run("app", "APPLY", import_lost={"job": job})
        waiting = eventually(lambda: self.waiting(importing), what="the plan")
        seen = [{"job_id": each["job_id"], "attempt": each["attempt"]} for each in waiting["doubts"]]
        self.system.api.post(f"/jobs/{importing}/approve", {"plan": waiting["kept_plan"]["attempt"], "doubts": seen})
        return waiting


def _session(leader: int) -> list[int]:
    found = subprocess.run(["pgrep", "-s", str(leader)], capture_output=True, text=True, check=False)
    return [int(pid) for pid in found.stdout.split() if int(pid) != leader]


@pytest.fixture
def site(system: System, tmp_path: Path) -> Site:
    providers.configuration(tmp_path).rename(tmp_path / ".tofurc")  # the home directory of the built-in runner
    system.start_server(runner=True)
    return Site(system, tmp_path)


@pytest.mark.engine
@pytest.mark.feature("J15.lost", "O3.doubt")
@pytest.mark.timeout(120)
def test_the_list_of_a_machine_that_was_lost_with_its_disk_has_what_it_made_and_says_that_it_may_be_incomplete(
    system: System, tmp_path: Path
) -> None:
    """Six files existed, `job lost-resources` said that nothing was lost, and `--import-lost` that there was nothing to import."""
    providers.configuration(tmp_path).rename(tmp_path / ".tofurc")
    system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    site = Site(system, tmp_path)
    job = system.run("app", "APPLY")
    eventually(lambda: sum(site.names.values()) == 6, what="the middle of the apply")
    time.sleep(1)  # the bound is 0.2 s, and the machine that runs this test is busy
    runner.kill()
    site.kill(job, with_executor=True)
    shutil.rmtree(system.runner_directory())
    eventually(lambda: system.job(job)["attempts"][0]["lost_at"], what="the loss")
    page = system.api.get(f"/jobs/{job}/lost-resources")
    assert (page["is_complete"], page["gaps"][0]["attempt"]) == (False, 1)
    assert Counter((each["action"], each["remedy"]) for each in page["items"]) == {
        ("created", "import"): 6,
        ("creating", "look"): 4,
    }


@pytest.mark.engine
@pytest.mark.feature("J15.lost", "O3.doubt")
@pytest.mark.timeout(120)
def test_what_a_killed_engine_made_is_imported_and_exists_once(site: Site) -> None:
    job = site.start()
    site.kill(job, with_executor=False)
    assert site.system.wait(job)["status"] == "FAILED"
    assert sum(site.names.values()) == 6
    lost = site.lost(job)
    assert Counter((each["action"], each["remedy"]) for each in lost) == {
        ("created", "import"): 6,
        ("creating", "look"): 4,
    }
    plan = site.import_lost(job)
    assert (plan["imports"], plan["add"], plan["destroy"], plan["replace"]) == (6, 4, 0, 0)
    assert site.names == {f"file-{number}": 1 for number in range(COUNT)}
    assert site.lost(job) == [], "the state has all of them now"


@pytest.mark.engine
@pytest.mark.feature("J15.lost", "O3.doubt")
@pytest.mark.timeout(180)
@thorough
def test_what_was_lost_is_asked_about_again_if_the_job_that_imports_it_is_killed(site: Site) -> None:
    """The person who approved the third plan saw only the second job, which had made nothing: all was made again."""
    first = site.start()
    site.kill(first, with_executor=False)
    assert site.system.wait(first)["status"] == "FAILED"
    second = site.approve_import(first)["id"]
    eventually(lambda: site.system.log(second).count("Creating...") == COUNT - site.made_count, what="its middle")
    site.kill(second, with_executor=False, attempt=2)
    assert site.system.wait(second)["status"] == "FAILED"
    in_doubt = [(each["job_id"], each["attempt"]) for each in site.system.api.get("/modules/app")["doubts"]]
    assert in_doubt == [(first, 1), (second, 2)]
    plan = site.import_lost()
    assert (plan["imports"], plan["add"]) == (6, 4)
    assert site.names == {f"file-{number}": 1 for number in range(COUNT)}
    assert site.system.api.get("/modules/app")["doubts"] == []


@pytest.mark.engine
@pytest.mark.feature("J15.lost", "O3.doubt", "O4.salvaged")
@pytest.mark.timeout(120)
def test_what_an_executor_left_on_disk_is_imported_after_its_salvage(site: Site) -> None:
    """The runner delivers the output that nobody had read when executor and engine were killed."""
    job = site.start()
    os.kill(site.system.executor(job), signal.SIGSTOP)
    site.gate.touch()
    [output] = site.system.directory.glob(f"**/attempts/{job}.1/{files.OUTPUT}")
    eventually(lambda: output.read_bytes().count(SAID.encode()) == COUNT, what="output that the executor does not read")
    site.kill(job, with_executor=True)
    waiting = eventually(lambda: site.waiting(job), what="the question")
    assert Counter(each["remedy"] for each in site.lost(job)) == {"import": COUNT}
    site.system.api.post(f"/jobs/{job}/decline", {"plan": waiting["kept_plan"]["attempt"]})
    assert site.import_lost(job)["imports"] == COUNT
    assert site.names == {f"file-{number}": 1 for number in range(COUNT)}
