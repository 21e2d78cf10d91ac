"""`log_latency_ms`: from the moment at which a step prints a line to the moment at which a watcher over the API has it."""

import json
import re
import time

from terracrew.client.address import segment
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env
from tests.bench.real import crewed

LINES, EVERY_SECONDS = 500, 0.02
_PRINTED = re.compile(r"at=(\d+\.\d+)")
_SCRIPT = f"import time\nfor _ in range({LINES}):\n    print(f'at={{time.time():.6f}}', flush=True)\n    time.sleep({EVERY_SECONDS})\n"
_MODULE = """
resource "terraform_data" "clock" {
  provisioner "local-exec" { command = "python3 -S clock.py" }
}
"""


def run(env: Env) -> dict[str, float]:
    milliseconds: list[float] = []
    with crewed(env) as (system, _, _):
        folder = system.directory / "source" / "clock"
        folder.mkdir(parents=True)
        (folder / "clock.py").write_text(_SCRIPT)
        system.module("clock", _MODULE)
        api = system.api
        job_id = api.post(f"/modules/{segment('clock')}/jobs", {"type": "APPLY"})["id"]
        for event in api.events(f"/jobs/{job_id}/log/stream"):
            now = time.time()
            if event.name == "end":
                break
            if event.name == "log":
                for text in (each["text"] for each in json.loads(event.data)):
                    milliseconds += [1000 * (now - float(printed)) for printed in _PRINTED.findall(text)]
        if len(milliseconds) != LINES:
            raise RuntimeError(f"{len(milliseconds)} of {LINES} lines came:\n{system.log(job_id)[-2000:]}")
    found = {"log_latency_ms.p50": median(milliseconds), "log_latency_ms.p99": percentile(milliseconds, 0.99)}
    env.say(f"log_latency_ms: p50 {found['log_latency_ms.p50']:.1f}, p99 {found['log_latency_ms.p99']:.1f}")
    return found
