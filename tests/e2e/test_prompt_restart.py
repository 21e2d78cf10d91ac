"""The server restarts in the middle of a real `tofu apply`, and nothing is seen at the prompt."""

import re
import signal
from pathlib import Path

import pytest

from tests.e2e.gate import Gate
from tests.e2e.prompt import Prompt, plain
from tests.e2e.system import Process, System, eventually
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
MAIN = """
data "terraform_remote_state" "gate" {
  backend = "http"
  config  = { address = "GATE" }
}
resource "terraform_data" "talking" {
  input = data.terraform_remote_state.gate.outputs.word
  provisioner "local-exec" {
    command = "i=0; until [ -e ENOUGH ]; do i=$((i+1)); echo line $i.; sleep 0.1; done; echo said $i lines"
  }
}
"""


def restart(server: Process) -> None:
    """Restart it in its process, with its socket, and wait until it serves again."""
    before = greetings(server)
    server.kill(signal.SIGUSR2)
    eventually(lambda: greetings(server) > before, what="the restart")


def greetings(server: Process) -> int:
    return server.log.read_text().count("Terracrew is at ")


@pytest.mark.feature("K6")
@thorough
def test_a_restart_in_a_plan_and_one_in_an_apply_are_not_seen_at_the_prompt(
    system: System, tofu: str, tmp_path: Path, gate: Gate
) -> None:
    """A refused connection ended the command: `Failed to read logs: … connection refused`."""
    system.starts_real_commands = True  # what is executed again is the command of the process
    server = system.start_server(runner=True)
    prompt, enough = Prompt(system, tofu, tmp_path / "ann"), tmp_path / "enough"
    prompt.write(MAIN.replace("GATE", gate.address).replace("ENOUGH", str(enough)))
    prompt.succeed("init")
    process = prompt.start("apply", "-auto-approve")
    eventually(gate.reached.is_set, what="the plan")
    restart(server)
    gate.open()
    eventually(lambda: "line 1." in system.log(system.api.get("/jobs")["items"][0]["id"]), what="the apply")
    restart(server)
    enough.touch()
    text, _ = process.communicate(timeout=90)
    text = plain(text)
    assert process.returncode == 0, text
    assert "Apply complete! Resources: 1 added" in text
    said = [int(number) for number in re.findall(r"line (\d+)\.", text)]
    assert said == list(range(1, len(said) + 1)), "each line is there once, and in order"
    assert f"said {len(said)} lines" in text
