"""The commands of the engines' own command line, each against Terracrew and against a local backend, with equal results.

`python -m tests.e2e.conformance` runs them with every engine that is installed or built here, and writes
`docs/engines-command-line-table.md`.
"""

import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from terracrew.toolchains import cache, discovery
from tests.e2e.prompt import Prompt, flat
from tests.e2e.system import System, running

MAIN = """
variable "size" { default = 1 }
resource "terraform_data" "one" { input = var.size }
resource "terraform_data" "two" { input = "two" }
output "size" { value = terraform_data.one.output }
output "secret" {
  value     = "hidden"
  sensitive = true
}
"""
PAGE = Path(__file__).parents[2] / "docs" / "engines-command-line-table.md"
HEAD = """# Commands and versions

This page is written by `python -m tests.e2e.conformance`, which runs each command with real command lines: against a module whose
plans run on a runner, against one whose plans run at the prompt (`command_line = terminal`), and against a local backend. A time is
given where both did what the local backend did: the same exit code, the same resources and outputs afterwards, and the same words
where words are the result. Times are in seconds, on a small machine, with a fresh upload for each plan.
"""
Mode = str
MODES: tuple[Mode, ...] = ("runners", "terminal", "local")


@dataclass(frozen=True)
class Command:
    name: str
    arguments: tuple[str, ...]
    answer: str = ""
    result: Callable[[str], object] = lambda text: None
    """What of its words is compared with those of the local backend."""
    differs: str = ""
    """How the words or the exit code differ by design, where the clients themselves refuse it."""
    before: Callable[[Prompt], object] = lambda prompt: None


def _added(text: str) -> object:
    return re.findall(r"(?:Plan|Resources): ([^.]*)\.", text)


def _pushed(prompt: Prompt) -> None:
    state = json.loads(prompt.succeed("state", "pull"))
    (prompt.directory / "pushed.tfstate").write_text(json.dumps(state | {"serial": state["serial"] + 1}))


def _import_block(prompt: Prompt) -> None:
    (prompt.directory / "imported.tf").write_text('resource "terraform_data" "imported" {}\n')


COMMANDS = (
    Command("init", ("init",)),
    Command("validate", ("validate",)),
    Command("plan", ("plan",), result=_added),
    Command("plan -destroy", ("plan", "-destroy"), result=_added),
    Command("apply, yes", ("apply",), answer="yes\n", result=_added),
    Command("output -json", ("output", "-json"), result=json.loads),
    Command("output NAME", ("output", "-raw", "size"), result=str),
    Command("plan without a change", ("plan",), result=_added),
    Command("plan -target", ("plan", "-target", "terraform_data.one", "-var", "size=2"), result=_added),
    Command("plan -replace", ("plan", "-replace", "terraform_data.two"), result=_added),
    Command("plan -refresh-only", ("plan", "-refresh-only"), result=_added),
    Command(
        "plan -out, apply FILE",
        ("apply", "saved.plan"),
        result=_added,
        before=lambda prompt: prompt.succeed("plan", "-var", "size=3", "-out", "saved.plan"),
    ),
    Command("apply FILE again", ("apply", "saved.plan")),
    Command("apply -auto-approve", ("apply", "-auto-approve", "-var", "size=4"), result=_added),
    Command("apply, no", ("apply",), answer="no\n"),
    Command("refresh", ("refresh", "-var", "size=4")),
    Command("show", ("show", "-json"), result=lambda text: sorted(json.loads(text)["values"]["outputs"])),
    Command("state list", ("state", "list"), result=str.split),
    Command("state show", ("state", "show", "terraform_data.two")),
    Command("state pull", ("state", "pull"), result=lambda text: len(json.loads(text)["resources"])),
    Command("state mv", ("state", "mv", "terraform_data.two", "terraform_data.three")),
    Command("state rm", ("state", "rm", "terraform_data.three")),
    Command("state push", ("state", "push", "pushed.tfstate"), before=_pushed),
    Command("import", ("import", "terraform_data.imported", "some-id"), before=_import_block),
    Command("taint", ("taint", "terraform_data.one")),
    Command("untaint", ("untaint", "terraform_data.one")),
    Command("console", ("console",), answer="1 + 1\n", result=lambda text: text.split()[-1]),
    Command("workspace list", ("workspace", "list")),
    Command("workspace show", ("workspace", "show"), differs="the name of the module"),
    Command("force-unlock without a lock", ("force-unlock", "-force", "default/app")),
    Command("destroy", ("destroy",), answer="yes\n", result=lambda text: re.findall(r"\d+ destroyed", text)),
)


@dataclass(frozen=True)
class Outcome:
    command: str
    seconds: dict[Mode, float]
    problem: str = ""
    is_refused_by_client: bool = False
    """Whether this version of the command line cannot do it with any server."""


def outcomes(system: System, engine: str, version: str, folder: Path) -> list[Outcome]:
    """Run every command in each mode, one after the other, and compare."""
    prompts = {mode: _prompt(system, engine, folder, mode, version) for mode in MODES}
    return [_outcome(each, prompts) for each in COMMANDS]


def _prompt(system: System, engine: str, folder: Path, mode: Mode, version: str) -> Prompt:
    prompt = Prompt(system, engine, folder / mode)
    if mode == "local":
        (prompt.directory / "main.tf").write_text(MAIN)
        return prompt
    name = f"{Path(engine).name}-{version.replace('.', '-')}-{mode}"
    source = {"kind": "archive", "archive_id": ""}
    settings = {"engine": Path(engine).name, "command_line": mode}
    system.api.post("/modules", {"path": name, "source": source, **settings})
    prompt.write(MAIN, workspace=name)
    return prompt


def _outcome(command: Command, prompts: dict[Mode, Prompt]) -> Outcome:
    seconds: dict[Mode, float] = {}
    found: dict[Mode, tuple[bool, object, str]] = {}
    for mode, prompt in prompts.items():
        try:
            command.before(prompt)
        except AssertionError as error:
            if "not supported" not in flat(str(error)):
                raise
            return Outcome(command.name, {}, is_refused_by_client=True)
        started = time.monotonic()
        ran = prompt.run(*command.arguments, answer=command.answer)
        seconds[mode] = time.monotonic() - started
        result = command.result(ran.text) if ran.code == 0 else None
        found[mode] = (ran.code == 0, result, _resources(prompt) if ran.code == 0 else "")
    problems = [
        f"{mode}: {found[mode]} instead of {found['local']}"
        for mode in MODES
        if found[mode] != found["local"] and not command.differs
    ]
    return Outcome(command.name, seconds, "; ".join(problems))


def _resources(prompt: Prompt) -> str:
    listed = prompt.run("state", "list")
    return flat(listed.text) if listed.code == 0 else ""


def engines() -> dict[str, str]:
    """Return the engines of this machine by their names with versions."""
    found = {
        f"{file.name} {file.parent.parent.name}": str(file)
        for name in ("tofu", "terraform")
        for file in sorted((cache.root() / "engines" / name).glob(f"*/*/{name}"))
    }
    for name in ("tofu", "terraform"):
        if (installed := discovery.find(name)) is not None:
            found.setdefault(f"{name} {installed.version}", installed.path)
    return found


def page(results: dict[str, list[Outcome]]) -> str:
    """Return the page with the table."""
    names = list(results)
    lines = [HEAD, f"| command | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for row, command in enumerate(COMMANDS):
        cells = [_cell(results[name][row]) for name in names]
        note = f" ({command.differs})" if command.differs else ""
        lines.append(f"| `{command.name}`{note} | {' | '.join(cells)} |")
    lines.append("\nEach cell has the time on a runner, at the prompt, and with a local backend.\n")
    return "\n".join(lines)


def _cell(outcome: Outcome) -> str:
    if outcome.is_refused_by_client:
        return "refused by the client"
    if outcome.problem:
        return f"differs: {outcome.problem}"
    return " · ".join(f"{outcome.seconds[mode]:.1f}" for mode in MODES)


def main() -> None:
    results: dict[str, list[Outcome]] = {}
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as system:
        for path in engines().values():
            system.env["PATH"] = f"{Path(path).parent}:{system.env['PATH']}"
        system.start_server(runner=True)
        for name, path in engines().items():
            results[name] = outcomes(system, path, name.split()[1], Path(folder) / name.replace(" ", "-"))
            for each in results[name]:
                print(name, each.command, each.problem or "equal", file=sys.stderr)
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
