"""Providers and downloaded modules in warm workspaces, with real engines and real providers."""

import json
import subprocess
from pathlib import Path

import pytest

from terracrew.executor.engines.hcl import lockfile
from terracrew.protocol.spec import JobType, StateSeed, Step
from terracrew.protocol.start import IsolationSettings
from tests.executor.warm_providers import TIME, fill_cache, locked
from tests.executor.warm_runs import WarmRunner
from tests.machine import engines, providers

pytestmark = [pytest.mark.engine, pytest.mark.feature("J3.warm")]


@pytest.fixture(params=["tofu", pytest.param("terraform", marks=pytest.mark.other_engine)])
def engine(request: pytest.FixtureRequest) -> str:
    return engines.tested_version(str(request.param)).name


@pytest.fixture
def runner(tmp_path: Path, tofu: str) -> WarmRunner:
    made = WarmRunner(tmp_path)
    made.environment["TF_CLI_CONFIG_FILE"] = str(providers.configuration(tmp_path))
    return made


async def test_a_module_with_a_complete_lock_file_is_warm_when_the_runner_has_its_provider(
    runner: WarmRunner, engine: str
) -> None:
    source = runner.source(locked(runner, engine, TIME))
    for _ in range(2):  # what is kept is not enough yet
        assert (await runner.job(source, engine=engine)).kept_from is None
    await fill_cache(runner, engine)
    applied = await runner.job(source, JobType.APPLY, engine=engine)
    assert applied.kept_from == 2
    assert "1 added" in applied.log


FORMS = {"lines of Windows": ("\n", "\r\n"), "a comment": ('" {\n', '"  { # pinned\n')}


@pytest.mark.parametrize("form", list(FORMS))
async def test_a_lock_file_may_have_another_form_than_init_gives_it(runner: WarmRunner, form: str) -> None:
    """Every second plan failed, because its workspace was warm and had no providers."""
    files = locked(runner, "tofu", TIME)
    source = runner.source(files | {lockfile.NAME: files[lockfile.NAME].replace(*FORMS[form])})
    await fill_cache(runner, "tofu")
    assert [(await runner.job(source)).kept_from for _ in range(3)] == [None, 1, 1]


async def test_a_lock_file_that_only_the_engine_can_read_is_never_warm_and_says_why(runner: WarmRunner) -> None:
    files = locked(runner, "tofu", TIME)
    source = runner.source(
        files | {lockfile.NAME: files[lockfile.NAME].replace("provider ", "provider /* of time */ ")}
    )
    await fill_cache(runner, "tofu")
    for _ in range(2):
        ran = await runner.job(source)
        assert ran.kept_from is None
        assert "The next job runs init again, too: the lock file of the source has another form" in ran.log


async def test_a_module_without_a_lock_file_is_never_warm_and_says_why(runner: WarmRunner) -> None:
    source = runner.source(TIME)
    await fill_cache(runner, "tofu")
    for _ in range(2):
        ran = await runner.job(source)
        assert ran.kept_from is None
        assert "The next job runs init again, too: the lock file of the source does not name every provider" in ran.log


async def test_a_provider_that_only_the_state_needs_is_found_by_init(runner: WarmRunner) -> None:
    """`init` reads the state, which is not part of what makes a workspace warm."""
    source = runner.source({"main.tf": 'resource "terraform_data" "it" {}\n'})
    assert (await runner.job(source)).kept_from is None
    assert (await runner.job(source)).kept_from == 1
    attributes = {"id": "2024-01-01T00:00:00Z", "rfc3339": "2024-01-01T00:00:00Z"}
    resource = {
        "mode": "managed",
        "type": "time_static",
        "name": "gone",
        "provider": 'provider["registry.opentofu.org/hashicorp/time"]',
        "instances": [{"schema_version": 0, "attributes": attributes}],
    }
    state: dict[str, object] = {"version": 4, "serial": 1, "lineage": "a", "outputs": {}, "resources": [resource]}
    content = json.dumps(state | {"terraform_version": "1.12.6"}).encode()
    ran = await runner.job(source, state=StateSeed(1, content=content, size=len(content)))
    assert ran.result.status == "SUCCEEDED", ran.log
    assert ran.statuses[:4] == ["init SKIPPED", "plan RUNNING", "plan FAILED", "init RUNNING"]
    assert "1 to destroy" in ran.log


@pytest.mark.parametrize("mode", ["landlock", "none"])
async def test_a_provider_that_a_job_replaces_does_not_run_in_the_next_job(runner: WarmRunner, mode: str) -> None:
    isolation = IsolationSettings("none" if mode == "none" else "landlock")
    ran_evil = runner.folder / "evil-ran"
    evil = f"#!/bin/sh\ntouch {ran_evil}\n"
    attack = 'resource "terraform_data" "attack" {\n  provisioner "local-exec" { command = "sh ./attack.sh" }\n}\n'
    script = """
    for file in $(find -L .terraform/providers -name 'terraform-provider-*'); do
      real=$(readlink -f "$file"); folder=$(dirname "$real")
      chmod u+w "$folder" "$real"; cp evil.sh "$real" && echo replaced in place
      rm -f "$real"; cp evil.sh "$real" && chmod +x "$real"
    done
    rm -rf .terraform/providers; mkdir .terraform/providers
    echo attacked
    """
    files = locked(runner, "tofu", TIME | {"attack.tf": attack})
    source = runner.source(files | {"attack.sh": script, "evil.sh": evil})
    package = await fill_cache(runner, "tofu")
    hostile = await runner.job(source, JobType.APPLY, start={"isolation": isolation})
    assert "attacked" in hostile.log
    is_replaced = "touch" in next(package.glob("terraform-provider-*")).read_bytes().decode(errors="replace")[:200]
    assert is_replaced == (mode == "none")
    following = await runner.job(source, start={"isolation": isolation})
    assert next(each.kept_from for each in following.facts if each.step is Step.INIT) == 1
    assert not ran_evil.exists()
    if mode == "landlock":
        assert following.kept_from == 1
    else:  # the plan compares the provider with the lock file, and so does the `init` after it
        assert "plan FAILED" in following.statuses
        assert "checksums" in following.log


def committed(repository: Path) -> str:
    """Make a repository of a folder, and return the id of its commit."""
    git = ["git", "-C", str(repository), "-c", "user.name=x", "-c", "user.email=x@y"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()


async def test_a_downloaded_module_is_never_kept(runner: WarmRunner) -> None:
    """Not even one that is pinned to a commit: no byte that came from elsewhere is handed on to a later job."""
    repository = runner.folder / "repository"
    repository.mkdir()
    (repository / "main.tf").write_text('output "said" { value = "from the repository" }\n')
    text = f'module "m" {{ source = "git::file://{repository}?ref={committed(repository)}" }}\n'
    source = runner.source({"main.tf": text})
    for _ in range(2):
        ran = await runner.job(source, start={"isolation": IsolationSettings(read_paths=[str(repository)])})
        assert ran.kept_from is None
        assert "The next job runs init again, too: the module m is not a folder of the source" in ran.log
    assert runner.entries == []
