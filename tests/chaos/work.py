"""The work of a chaos run: modules for the simulated and for the real engine, and a steady supply of jobs."""

import random
import threading
from collections import Counter
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.client.address import segment
from terracrew.errors import Conflict, TerracrewError
from terracrew.source_rules import archive
from tests.chaos.installation import Installation

GROUPS = 5
APPROVED = 0.2
"""The share of modules whose plans wait for a person."""
RETRIED = 0.1
"""The share of modules where a change that was cut short may be repeated unasked."""
_MOST_WAITING = 2
REAL_MODULE = """
resource "terraform_data" "first" {{ input = plantimestamp() }}
resource "terraform_data" "part" {{
  count            = 3
  triggers_replace = plantimestamp()
  provisioner "local-exec" {{
    on_failure = continue
    command    = "{program} made {witness} {name} part-${{count.index}} ${{self.id}}"
  }}
  provisioner "local-exec" {{
    when    = destroy
    command = "{program} destroyed {witness} {name} part-${{count.index}} ${{self.id}}"
  }}
}}
resource "terraform_data" "slow" {{
  depends_on       = [terraform_data.part]
  triggers_replace = plantimestamp()
  input            = terraform_data.first.output
  provisioner "local-exec" {{ command = "{program} {witness} {name} {seconds}" }}
}}
output "done" {{ value = terraform_data.slow.output }}
"""
"""What a real engine applies. A fault may kill the provisioner that has just recorded a creation. Without `on_failure`, the engine
would then mark the thing as tainted, and a tainted thing is destroyed without its provisioner: nobody would record that."""


class Made(msgspec.Struct, frozen=True):
    """A job that somebody asked for, and whose id was answered."""

    id: str
    module: str


class Work:
    def __init__(self, site: Installation, rng: random.Random) -> None:
        self._site, self._random = site, rng
        self.modules: dict[str, str] = {}
        """Witness name by module path."""
        self.retried: set[str] = set()
        """Witness names of modules that chose `interrupted: retry`."""
        self.jobs: dict[str, Made] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=site.timeline.watched("the supply of jobs", self._supply), daemon=True)
        self.refusals: dict[str, int] = {}

    def make_modules(self) -> None:
        api = self._site.api()
        for number in range(GROUPS):
            api.post("/groups?parents=true", {"path": f"team-{number}"})
        program = self._site.directory / "bin" / "provision"
        plan = self._site.plan
        for number in range(plan.modules):
            self._make(
                f"team-{number % GROUPS}/fast-{number}", {"chaos.json": self._fast(f"fast-{number}"), "main.tf": b""}
            )
        for number in range(plan.real_modules):
            name = f"real-{number}"
            main = REAL_MODULE.format(
                program=program, witness=self._site.witnesses, name=name, seconds=self._random.choice([0.5, 2, 6])
            )
            module = msgspec.json.encode({"name": name, "witness": str(self._site.witnesses)})
            self._make(f"team-{number % GROUPS}/{name}", {"main.tf": main.encode(), "witness.json": module})

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join(90)

    def _fast(self, name: str) -> bytes:
        seconds = min(self._random.choice([0.1, 0.5, 1, 2, 4, 8, 15, 30, 100]), self._site.plan.slowest)
        return msgspec.json.encode(
            {
                "name": name,
                "witness": str(self._site.witnesses),
                "seconds": seconds,
                "lines": self._random.choice([20, 100, 300]),
                "states": self._random.choice([1, 2, 5, 10]),
                "things": self._random.choice([3, 10, 20]),
            }
        )

    def _make(self, path: str, files: dict[str, bytes]) -> None:
        api = self._site.api()
        folder = self._site.directory / "source" / path
        folder.mkdir(parents=True)
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        uploaded = api.upload("/archives", archive.pack(folder), "application/gzip")
        source = {"kind": "archive", "archive_id": uploaded["id"]}
        needs_approval = self._random.random() < APPROVED
        name = path.rpartition("/")[2]
        interrupted = "retry" if self._random.random() < RETRIED else "ask"
        api.post(
            "/modules",
            {
                "path": path,
                "engine": "tofu",
                "source": source,
                "needs_approval": needs_approval,
                "interrupted": interrupted,
            },
        )
        self.modules[path] = name
        if interrupted == "retry":
            self.retried.add(name)

    def _supply(self) -> None:
        """Keep a number of jobs unfinished; a module may have several, but only one of them may run."""
        api = self._site.api(timeout=10)
        while not self._ended.wait(0.3):
            try:
                crowd = Counter(job["module_path"] for job in api.list("/jobs", active=True, limit=200))
                free = [path for path in self.modules if crowd[path] < _MOST_WAITING]
                for _ in range(min(self._site.plan.busy - crowd.total(), 4)):
                    self._ask(self._random.choice(free))
            except TerracrewError as error:
                self.refusals[error.code] = self.refusals.get(error.code, 0) + 1

    def _ask(self, module: str) -> None:
        kind = self._random.choices(["APPLY", "PLAN", "DESTROY"], [8, 2, 1])[0]
        key = {"Idempotency-Key": ids.new("job")}
        api = self._site.api(timeout=10)
        while True:
            try:
                job = api.post(f"/modules/{segment(module)}/jobs", {"type": kind}, headers=key)
                self.jobs[job["id"]] = Made(job["id"], module)
                return
            except Conflict as error:
                self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
                return
            except TerracrewError as error:
                self.refusals[error.code] = self.refusals.get(error.code, 0) + 1
                if self._ended.wait(0.5):
                    return
