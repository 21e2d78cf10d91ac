"""Whatever a job does to its workspace, or to what is kept of it, no later job runs anything but its own source."""

from pathlib import Path

import pytest

from terracrew.protocol.spec import JobType
from terracrew.protocol.start import IsolationSettings
from tests.executor.warm_runs import SMALL, WarmRunner

pytestmark = [pytest.mark.engine, pytest.mark.feature("J3.warm")]

EVIL = 'resource "terraform_data" "it" { input = "evil" }\noutput "said" { value = terraform_data.it.input }\n'
HOSTILE = SMALL | {
    "evil/main.tf": EVIL,
    "attack.tf": 'resource "terraform_data" "attack" {\n  provisioner "local-exec" { command = "sh ./attack.sh" }\n}\n',
}
MODULES = '{"Modules":[{"Key":"","Source":"","Dir":"."},{"Key":"below","Source":"./below","Dir":"evil"}]}'
IN_THE_WORKSPACE = f"""
chmod -R u+w .terraform . 2>/dev/null
printf '%s' '{MODULES}' > .terraform/modules/modules.json
printf '%s' evil > .terraform/terraform.tfstate
mkdir -p .terraform/providers/example.com/evil/evil/1.0.0/linux_amd64
printf 'provider "example.com/evil/evil" {{\\n  version = "1.0.0"\\n}}\\n' > .terraform.lock.hcl
cp evil/main.tf below/main.tf
mv .terraform/modules .terraform/moved
ln -s moved .terraform/modules
echo attacked the workspace
"""
ON_THE_CACHE = f"""
for file in {{warm}}/*; do
  chmod u+w "$file" && cp evil/main.tf "$file" && echo attacked the cache
  rm "$file" && ln -s "$PWD/evil/main.tf" "$file"
done
rm -rf {{warm}}/old; mv {{warm}} {{warm}}.old && mkdir {{warm}} && cp {{warm}}.old/* {{warm}}/ && echo replaced the cache
printf '%s' '{MODULES}' > .terraform/modules/modules.json
echo attacked
"""
LATER = f"""
setsid sh -c 'n=0; while [ $n -lt 400 ]; do n=$((n+1))
  for folder in {{workspaces}}/*; do
    if [ -f "$folder/evil/main.tf" ]; then
      cp -f "$folder/evil/main.tf" "$folder/below/main.tf"
      mkdir -p "$folder/.terraform/modules"; echo "{MODULES.replace('"', chr(92) + '"')}" > "$folder/.terraform/modules/modules.json"
    fi
  done
  for file in {{warm}}/*; do cp -f evil/main.tf "$file"; done
  sleep 0.05
done' >/dev/null 2>&1 &
echo attacked from behind
"""


@pytest.fixture
def runner(tmp_path: Path, tofu: str) -> WarmRunner:
    return WarmRunner(tmp_path)


async def attack(runner: WarmRunner, script: str, isolation: IsolationSettings) -> bytes:
    """Run the first job, which is hostile, and return the source that all jobs have."""
    text = script.replace("{warm}", runner.warm.directory).replace("{workspaces}", str(runner.workspaces))
    source = runner.source(HOSTILE | {"attack.sh": text})
    ran = await runner.job(source, JobType.APPLY, start={"isolation": isolation})
    assert ran.kept_from is None
    assert "attacked" in ran.log
    return source


async def assert_good(runner: WarmRunner, source: bytes, isolation: IsolationSettings) -> int | None:
    """Run the next job, and return whose `init` it used."""
    ran = await runner.job(source, start={"isolation": isolation})
    number = ran.kept_from
    assert '"good"' in ran.log
    assert "evil" not in ran.log
    return number


LANDLOCK, NONE = IsolationSettings(), IsolationSettings("none")


async def test_a_job_that_changes_its_workspace_does_not_change_the_next_one(runner: WarmRunner) -> None:
    source = await attack(runner, IN_THE_WORKSPACE, LANDLOCK)
    assert await assert_good(runner, source, LANDLOCK) == 1
    assert await assert_good(runner, source, LANDLOCK) == 1


async def test_a_job_cannot_reach_what_is_kept(runner: WarmRunner) -> None:
    source = await attack(runner, ON_THE_CACHE, LANDLOCK)
    assert await assert_good(runner, source, LANDLOCK) == 1


async def test_what_a_job_without_isolation_puts_into_the_cache_is_not_used(runner: WarmRunner) -> None:
    source = await attack(runner, ON_THE_CACHE, NONE)
    assert await assert_good(runner, source, NONE) is None
    assert await assert_good(runner, source, NONE) == 2


async def test_a_process_that_outlives_its_engine_does_not_change_the_next_job(runner: WarmRunner) -> None:
    source = await attack(runner, LATER, LANDLOCK)
    assert await assert_good(runner, source, LANDLOCK) == 1
