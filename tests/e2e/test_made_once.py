"""A change that was cut short is never repeated unasked: real OpenTofu, killed in the middle (rule 9)."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import modules
from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually

SHOP = """
resource "terraform_data" "paid" {
  input = "a database"
  provisioner "local-exec" { command = "echo bought >> %s" }
}
resource "terraform_data" "slow" {
  input = terraform_data.paid.output
  provisioner "local-exec" { command = "echo waiting >> %s; until [ -f %s ]; do sleep 0.05; done" }
}
"""


class Shop:
    """An apply that has bought something which is in no state yet, and waits in the middle."""

    def __init__(self, system: System, tmp_path: Path, **fields: Any) -> None:
        self.system = system
        self.bought, self.slow, self.gate = tmp_path / "shop", tmp_path / "slow", tmp_path / "gate"
        system.module("app", SHOP % (self.bought, self.slow, self.gate), **fields)
        self.job = system.run("app", "APPLY")
        eventually(self.slow.exists, what="the middle of the apply")

    @property
    def times(self) -> int:
        return self.bought.read_text().split().count("bought")

    def end_session(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End executor, engine and everything else in the attempt's session, at once."""
        leader = self.system.executor(self.job)
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    if os.getsid(int(name)) == leader:
                        os.kill(int(name), number)
                except (ProcessLookupError, PermissionError):
                    continue

    def kill_engine(self) -> None:
        """What the out-of-memory killer does."""
        leader = self.system.executor(self.job)
        found = subprocess.run(["pgrep", "-s", str(leader), "-x", "tofu"], capture_output=True, text=True, check=True)
        for pid in found.stdout.split():
            os.kill(int(pid), signal.SIGKILL)

    def waits(self, job: str | None = None) -> dict[str, Any]:
        """The job as it waits for a person."""
        return eventually(
            lambda: found if (found := self.system.job(job or self.job))["status"] == "AWAITING_APPROVAL" else None,
            what="the question",
        )

    def approve(self, waiting: dict[str, Any]) -> dict[str, Any]:
        seen = [{"job_id": each["job_id"], "attempt": each["attempt"]} for each in waiting["doubts"]]
        body = {"plan": waiting["kept_plan"]["attempt"], "doubts": seen}
        self.system.api.post(f"/jobs/{waiting['id']}/approve", body)
        return self.system.wait(waiting["id"])


@pytest.mark.feature("O3.doubt", "O4.salvaged")
@pytest.mark.timeout(120)
def test_what_a_killed_engine_made_is_not_made_again_unasked(system: System, tmp_path: Path) -> None:
    """`bought bought`, SUCCEEDED, and nobody was asked."""
    system.start_server(runner=True)
    shop = Shop(system, tmp_path)
    shop.end_session()
    shop.gate.touch()
    waiting = shop.waits()
    assert shop.times == 1
    (doubt,) = waiting["doubts"]
    assert (doubt["attempt"], doubt["is_gone"], doubt["may_miss_state"]) == (1, True, True)
    assert "signal 9" in doubt["reason"]
    assert [(each["address"], each["action"]) for each in doubt["made"]] == [
        ("terraform_data.paid", "created"),
        ("terraform_data.slow", "creating"),
    ]
    assert doubt["made"][0]["id"]
    assert shop.approve(waiting)["status"] == "SUCCEEDED"
    assert shop.times == 2, "a person has looked and wanted it"
    assert not system.api.get("/modules/app")["doubts"]


@pytest.mark.feature("O3.doubt", "O4.salvaged")
@pytest.mark.timeout(120)
def test_a_host_that_reboots_in_the_middle_of_an_apply_does_not_apply_again_unasked(
    system: System, tmp_path: Path
) -> None:
    """Six of ten resources were made when the host was killed; its runner came back, and made six again."""
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    shop = Shop(system, tmp_path)
    runner.kill()
    shop.end_session()
    shop.gate.touch()
    system.start_runner(credentials)
    waiting = shop.waits()
    assert (shop.times, [each["attempt"] for each in waiting["doubts"]]) == (1, [1])


@pytest.mark.feature("O3.doubt")
@pytest.mark.timeout(120)
def test_an_engine_that_is_killed_under_its_executor_leaves_the_module_in_doubt(system: System, tmp_path: Path) -> None:
    """`is_in_doubt: false` and `may_miss_state: false`; the next apply made it all again unasked."""
    system.start_server(runner=True)
    shop = Shop(system, tmp_path)
    shop.kill_engine()
    shop.gate.touch()
    ended = system.wait(shop.job)
    assert ended["status"] == "FAILED"
    assert ended["attempts"][0]["is_in_doubt"]
    waiting = shop.waits(system.run("app", "APPLY"))
    assert (shop.times, waiting["doubts"][0]["job_id"]) == (1, shop.job)
    assert waiting["doubts"][0]["may_miss_state"]


@pytest.mark.feature("O3.doubt")
@pytest.mark.timeout(120)
def test_a_shutdown_of_the_host_is_a_loss_and_nobodys_cancel(system: System) -> None:
    """The job ended CANCELED with no `cancel_mode`, and nobody in the audit."""
    with Gate.closed() as gate:
        system.start_server(runner=True)
        system.module("app", modules.gated_plan(gate.address))
        job = system.run("app", "APPLY")
        assert gate.reached.wait(60)
        os.kill(system.executor(job), signal.SIGTERM)
        gate.open()
        ended = system.wait(job)
    assert (ended["status"], ended["cancel_mode"], len(ended["attempts"])) == ("SUCCEEDED", None, 2)
    assert "SIGTERM" in ended["attempts"][0]["reason"]


@pytest.mark.feature("O2.notices", "O3.doubt")
@pytest.mark.timeout(120)
def test_a_runner_that_has_to_end_interrupts_an_apply_and_what_it_made_is_not_made_again(
    system: System, tmp_path: Path
) -> None:
    """The container of the runner was killed after its two minutes, with the engine in the middle of a change."""
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials | {"TERRACREW_RUNNER__STOP_SECONDS": "10"})
    shop = Shop(system, tmp_path)
    os.kill(runner.pid, signal.SIGTERM)
    shown = eventually(
        lambda: each if (each := system.api.get("/runners")["items"][0]["instances"][0])["drain_reason"] else None,
        what="the reason of the drain",
    )
    assert (shown["status"], shown["drain_reason"]) == ("DRAINING", "SIGTERM")
    assert shown["ends_at"]
    eventually(lambda: not os.path.exists(f"/proc/{runner.pid}/exe"), within=11, what="the end of the runner in time")
    assert not system.executors()
    shop.gate.touch()
    system.start_runner(credentials, "two")
    ended = system.wait(shop.job)
    assert (ended["status"], ended["cancel_mode"], shop.times) == ("SUCCEEDED", None, 1)
    first, second = ended["attempts"]
    assert (first["is_in_doubt"], second["outcome"]) == (False, "succeeded")
    assert "its runner had to end: SIGTERM at" in first["reason"]


@pytest.mark.feature("O3.doubt")
@pytest.mark.timeout(120)
def test_where_twice_does_no_harm_a_module_is_tried_again_unasked(system: System, tmp_path: Path) -> None:
    system.start_server(runner=True)
    shop = Shop(system, tmp_path, interrupted="retry")
    shop.end_session()
    shop.gate.touch()
    assert system.wait(shop.job)["status"] == "SUCCEEDED"
    assert shop.times == 2
