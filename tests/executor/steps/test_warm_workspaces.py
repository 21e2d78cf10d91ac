"""`init` does not run again as long as nothing that it reads has changed. Whole attempts with the real OpenTofu."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.executor.steps.warm_workspace import WarmCache
from terracrew.protocol.spec import DefinedInput, ExtraFile, Hook, JobType, Step, StepHook
from terracrew.protocol.start import IsolationSettings, WarmSettings
from tests.executor.raw_archives import packed
from tests.executor.warm_runs import SMALL, WarmRunner

pytestmark = [pytest.mark.engine, pytest.mark.feature("J3.warm")]


@pytest.fixture
def runner(tmp_path: Path, tofu: str) -> WarmRunner:
    return WarmRunner(tmp_path)


async def test_the_second_job_of_a_module_does_not_run_init(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    cold = await runner.job(source)
    assert cold.kept_from is None
    warm = await runner.job(source)
    assert warm.kept_from == 1
    assert warm.statuses == ["init SKIPPED", "plan RUNNING", "plan SUCCEEDED"]
    assert "Initializing" in cold.log
    assert "Initializing" not in warm.log
    applied = await runner.job(source, JobType.APPLY)
    assert applied.kept_from == 1
    assert '"good"' in applied.log


MANIFEST = '{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"below","Source":"./below","Dir":"below"}]}'
SENT = ".terraform/modules/modules.json"


async def test_what_a_command_line_sends_of_its_own_init_does_not_keep_a_workspace_from_being_warm(
    runner: WarmRunner,
) -> None:
    """The clients of a `cloud` block send `.terraform/modules` with the source. Every one of their jobs ran `init`."""
    source = packed(SMALL | {SENT: MANIFEST})
    assert [(await runner.job(source, has_own_source=True)).kept_from for _ in range(2)] == [None, 1]


async def test_downloaded_modules_that_a_command_line_sends_are_used(runner: WarmRunner) -> None:
    """A runner may have no right to download them."""
    far = {"main.tf": SMALL["main.tf"].replace("./below", "git::https://nowhere.invalid/below.git")}
    sent = {
        SENT: MANIFEST.replace("./below", "git::https://nowhere.invalid/below.git").replace(
            '"Dir":"below"', '"Dir":".terraform/modules/below"'
        ),
        ".terraform/modules/below/main.tf": SMALL["below/main.tf"],
    }
    assert [(await runner.job(packed(far | sent), has_own_source=True)).kept_from for _ in range(2)] == [None, None]


CHANGES: dict[str, dict[str, Any]] = {
    "another module": {"module_id": "mod_2"},
    "another organization": {"organization_id": "org_2"},
    "an extra file": {"files": [ExtraFile("extra.tf", "locals {}\n")]},
    "an input": {"inputs": {"name": "x"}},
    "a flag": {"flags": {Step.INIT: ["-no-color"]}},
    "a variable": {"environment": {"TF_VAR_name": "x"}},
    "a defined variable": {"definitions": [DefinedInput("environment", "TF_VAR_name", "job_number")]},
    "arguments": {"environment": {"TF_CLI_ARGS_init": "-no-color"}},
    "a workspace": {"environment": {"TF_WORKSPACE": "default"}},
    "another backend": {"backend": "own"},
}


async def test_init_runs_if_anything_that_it_reads_is_different(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    assert (await runner.job(source)).kept_from is None
    for what, changes in CHANGES.items():
        assert (await runner.job(source, **changes)).kept_from is None, what
    assert (await runner.job(source)).kept_from == 1


async def test_init_runs_for_another_source_configuration_or_environment_of_the_runner(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    assert (await runner.job(source)).kept_from is None
    assert (await runner.job(runner.source(SMALL | {"more.tf": ""}))).kept_from is None
    runner.environment["SOMETHING"] = "else"
    assert (await runner.job(source)).kept_from is None
    del runner.environment["SOMETHING"]
    home = Path(runner.environment["HOME"])
    home.mkdir()
    (home / ".tofurc").write_text("disable_checkpoint = true\n")
    assert (await runner.job(source)).kept_from is None
    (home / ".tofurc").write_text("disable_checkpoint = false\n")
    assert (await runner.job(source)).kept_from is None
    (home / ".tofurc").unlink()
    assert (await runner.job(source)).kept_from == 1


def version_of(program: Path, real: str, version: str) -> None:
    """Write a program that runs the real engine, and says that it is of another version."""
    shown = f"'{real}' \"$@\" | sed 's/[0-9]*[.][0-9]*[.][0-9]*/{version}/'"
    program.write_text(f'#!/bin/sh\nif [ "$1" = version ]; then {shown}; else exec \'{real}\' "$@"; fi\n')
    program.chmod(0o755)


async def test_init_runs_for_another_engine_or_another_version_of_it(runner: WarmRunner, tofu: str) -> None:
    source = runner.source(SMALL)
    programs = runner.folder / "programs"
    programs.mkdir()
    start = {"engine_paths": [str(programs)], "isolation": IsolationSettings("none")}
    version_of(programs / "tofu", tofu, "1.12.1")
    assert [(await runner.job(source, start=start)).kept_from for _ in range(2)] == [None, 1]
    version_of(programs / "tofu", tofu, "1.12.2")
    assert [(await runner.job(source, start=start)).kept_from for _ in range(2)] == [None, 3]
    assert (await runner.job(source, start=start | {"engine_paths": []})).kept_from is None, "at another path"
    version_of(programs / "terraform", tofu, "1.5.7")
    assert (await runner.job(source, start=start, engine="terraform")).kept_from is None


NEVER: dict[str, dict[str, Any]] = {
    "it is asked for": {"is_fresh": True},
    "a hook belongs to it": {"hooks": [StepHook(Step.INIT, "after", Hook("#!/bin/sh\ntrue\n"), "acme")]},
    "it looks for newer versions": {"flags": {Step.INIT: ["-upgrade"]}},
    "it reads a file outside": {"flags": {Step.INIT: ["-plugin-dir=/opt/plugins"]}},
    "the runner keeps nothing": {"start": {"warm": None}},
}


async def test_init_runs_in_every_job_and_leaves_nothing(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    for what, changes in NEVER.items():
        assert (await runner.job(source, **changes)).kept_from is None, what
        assert runner.entries == [], what


async def test_a_fresh_job_also_removes_what_was_kept(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    await runner.job(source)
    assert (await runner.job(source, is_fresh=True)).kept_from is None
    assert (await runner.job(source)).kept_from is None


async def test_a_module_whose_configuration_can_run_programs_in_init_is_never_warm(runner: WarmRunner) -> None:
    encryption = 'terraform {\n  encryption {\n    method "unencrypted" "it" {}\n  }\n}\n'
    source = runner.source(SMALL | {"encryption.tf": encryption})
    for _ in range(2):
        assert (await runner.job(source)).kept_from is None


async def test_neither_a_state_nor_a_credential_is_kept(runner: WarmRunner) -> None:
    ran = await runner.job(
        runner.source(SMALL),
        JobType.APPLY,
        inputs={"token": "a-secret-input"},
        environment={"AWS_SECRET_ACCESS_KEY": "a-secret-key"},
    )
    assert ran.result.status == "SUCCEEDED", ran.log
    [entry] = runner.entries
    content = entry.read_bytes()
    for secret in (b"a-secret", b"lineage", b"terraform_data", b"credential"):
        assert secret not in content


async def test_nothing_of_a_module_with_a_backend_of_its_own_is_kept(runner: WarmRunner) -> None:
    """Its configuration can have a credential in it, and Terracrew does not know every backend."""
    files = SMALL | {"backend.tf": 'terraform {\n  backend "local" {\n    path = "own.tfstate"\n  }\n}\n'}
    ran = await runner.job(runner.source(files), backend="own")
    assert "The next job runs init again, too: the module has a backend of its own (local)" in ran.log
    assert runner.entries == []


@pytest.mark.parametrize("missing", ["a module", "the backend"])
async def test_a_plan_that_misses_something_runs_init_and_is_tried_once_more(runner: WarmRunner, missing: str) -> None:
    """What was kept is replaced by something that is signed, and that is not enough."""
    source = runner.source(SMALL)
    await runner.job(source)
    [entry] = runner.entries
    strip(entry, runner.warm, "modules.json" if missing == "a module" else "terraform.tfstate")
    ran = await runner.job(source)
    assert ran.result.status == "SUCCEEDED", ran.log
    assert ran.statuses == [
        "init SKIPPED",
        "plan RUNNING",
        "plan FAILED",
        "init RUNNING",
        "init SUCCEEDED",
        "plan RUNNING",
        "plan SUCCEEDED",
    ]
    assert "init runs now, and plan is tried once more" in ran.log
    assert runner.entries == []
    assert (await runner.job(source)).kept_from is None
    assert (await runner.job(source)).kept_from == 3


async def test_a_plan_that_fails_for_another_reason_is_not_repeated(runner: WarmRunner) -> None:
    files = {
        "main.tf": 'variable "n" {\n  type = number\n  default = 1\n}\nlocals { x = 1 / (var.n - 1) }\noutput "x" { value = local.x }\n'
    }
    source = runner.source(files)
    assert (await runner.job(source)).result.status == "FAILED"
    ran = await runner.job(source)
    assert ran.result.status == "FAILED"
    assert ran.statuses == ["init SKIPPED", "plan RUNNING", "plan FAILED"]


async def test_init_runs_where_what_was_kept_is_too_old(runner: WarmRunner) -> None:
    source = runner.source(SMALL)
    await runner.job(source)
    runner.warm = msgspec.structs.replace(runner.warm, max_age_seconds=0.01)
    assert (await runner.job(source)).kept_from is None


async def test_a_module_that_is_not_in_the_source_says_so(runner: WarmRunner) -> None:
    remote = runner.folder / "remote"
    remote.mkdir()
    (remote / "main.tf").write_text("locals {}\n")
    source = runner.source({"main.tf": f'module "m" {{ source = "{remote}" }}\n'})
    ran = await runner.job(source, start={"isolation": IsolationSettings(read_paths=[str(remote)])})
    assert ran.kept_from is None
    assert "The next job runs init again, too: the module m is not a folder of the source" in ran.log


def strip(file: Path, settings: WarmSettings, name: str) -> None:
    """Take a file out of what was kept, and sign the rest."""
    cache = WarmCache(settings)
    entry = cache.get(file.name)
    assert entry is not None
    rest = [each for each in entry.files if not each.path.endswith(name)]
    assert len(rest) == len(entry.files) - 1
    assert cache.put(file.name, msgspec.structs.replace(entry, files=rest))
