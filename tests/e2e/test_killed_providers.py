"""A provider that is killed in the middle of an apply: what it made and did not report is not made again unasked (rule 9)."""

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.system import System, eventually
from tests.machine import providers
from tests.thoroughness import thorough

COUNT = 4
FILES = """
variable "delay" { default = 60 }
resource "testing_file" "each" {
  count               = %d
  directory           = "%s"
  name                = "file-${count.index}"
  delay_after_seconds = var.delay
}
"""


class Factory:
    """An apply whose provider has made every file and has answered for none of them."""

    def __init__(self, system: System, folder: Path, engine: str = "tofu") -> None:
        name = ".tofurc" if engine == "tofu" else ".terraformrc"
        providers.configuration(folder).rename(folder / name)
        self.system, self._made = system, folder / "made"
        self._made.mkdir()
        system.start_server(runner=True)
        system.module("app", providers.required("testing") + FILES % (COUNT, self._made), engine=engine)
        self.job = system.run("app", "APPLY")
        eventually(lambda: len(list(self._made.iterdir())) == COUNT, what="the files")

    @property
    def made(self) -> Counter[str]:
        return Counter(json.loads(file.read_text())["name"] for file in self._made.iterdir())

    def kill_provider(self, leader: int) -> None:
        """What the out-of-memory killer does: the provider is the largest process of most applies."""
        command = ["pgrep", "-s", str(leader), "-f", "terraform-provider-testing"]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def waiting(self, job: str) -> dict[str, Any]:
        return eventually(
            lambda: found if (found := self.system.job(job))["status"] == "AWAITING_APPROVAL" else None,
            what="the question",
        )

    def lost(self) -> dict[str, str]:
        listed = self.system.api.list(f"/jobs/{self.job}/lost-resources")
        return {each["address"]: each["action"] for each in listed}


CREATING = {f"testing_file.each[{number}]": "creating" for number in range(COUNT)}


@pytest.mark.feature("O3.doubt", "J15.lost")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("engine", ["tofu", "terraform"])
def test_what_a_killed_provider_was_making_is_listed_and_not_made_again_unasked(
    system: System, tmp_path: Path, engine: str
) -> None:
    """FAILED with exit code 1, no doubt, and the next apply made all four a second time."""
    if engine == "terraform" and shutil.which(engine) is None:
        pytest.skip("Terraform is not installed")
    factory = Factory(system, tmp_path, engine)
    factory.kill_provider(system.executor(factory.job))
    first = system.wait(factory.job)
    assert (first["status"], "Plugin did not respond" in first["message"]) == ("FAILED", True), first["message"]
    assert [each["may_miss_state"] for each in system.api.get("/modules/app")["doubts"]] == [True]
    assert factory.lost() == CREATING
    assert "may be in no state" in system.log(factory.job)
    second = factory.waiting(system.run("app", "APPLY", inputs={"delay": 0}))
    assert second["doubts"]
    assert factory.made == dict.fromkeys(factory.made, 1)


@pytest.mark.feature("O3.doubt", "O4.salvaged")
@pytest.mark.timeout(120)
@thorough
def test_what_an_engine_left_without_its_executor_does_not_have_what_a_killed_provider_made(
    system: System, tmp_path: Path
) -> None:
    """The state that the salvage found counted as a proof that everything was recorded, and attempt 2 made it all again."""
    factory = Factory(system, tmp_path)
    leader = system.executor(factory.job)
    os.kill(leader, signal.SIGKILL)
    factory.kill_provider(leader)
    waiting = factory.waiting(factory.job)
    assert [(each["attempt"], each["may_miss_state"]) for each in waiting["doubts"]] == [(1, True)]
    assert factory.lost() == CREATING
    assert factory.made == dict.fromkeys(factory.made, 1)
