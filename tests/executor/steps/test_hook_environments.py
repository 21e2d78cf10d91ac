"""A hook of a group sees nothing that is set below the group. The real OpenTofu runs."""

import sys
from pathlib import Path

import pytest

from terracrew.executor.steps import hook_environment
from terracrew.protocol.spec import ApprovedHooks, DefinedInput, Hook, JobType, PlaceEnvironment, Step, StepHook
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

MAIN = 'variable "zone" { default = "" }\noutput "it" { value = "made" }\n'
GROUP, MODULE = "acme", "acme/web"
FORGED = "import builtins\nprint('FORGED')\n"


def hook(script: str, place: str = GROUP) -> StepHook:
    return StepHook(Step.INIT, "before", Hook(script), place)


def said(hub: FakeExecutorHub) -> list[str]:
    return [line for line in hub.log().decode().splitlines() if line.startswith("HOOK")]


def forged_source(folder: Path) -> tuple[Path, dict[str, str]]:
    """Return a module that tries to run its own code in the hooks of its group, and the variables that it sets for that."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for base in ("evil/lib", "evil/.local/lib"):
        packages = folder / base / version / "site-packages"
        packages.mkdir(parents=True)
        (packages / "evil.pth").write_text("import sys; sys.stdout.write('FORGED')\n")
    (folder / "startup").write_text("echo FORGED\n")
    (folder / "Forged.pm").write_text('print "FORGED"; 1;\n')
    (folder / "json.py").write_text(FORGED)
    variables = {
        "PYTHONUSERBASE": "evil",
        "HOME": "evil",
        "PERLLIB": ".",
        "BASH_ENV": "startup",
        "PERL5OPT": "-MForged",
    }
    return folder, variables


@pytest.mark.engine
@pytest.mark.feature("H2.approved")
@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_module_cannot_make_a_hook_of_its_group_run_something_else(
    hub: FakeExecutorHub, executors: ExecutorProcesses, is_approved: bool
) -> None:
    """With PYTHONUSERBASE, HOME or PERLLIB, and without pre-approval with BASH_ENV, a policy check of a group exited with 0."""
    source, variables = forged_source(executors.folder / "source")
    hooks = [
        hook("#!/usr/bin/python3\nimport json\nprint('HOOK python')\n"),
        hook("#!/bin/bash\necho HOOK bash; /usr/bin/python3 -c 'import json'; /usr/bin/perl -e 1\n"),
    ]
    spec = executors.spec(JobType.PLAN, module(source, main=MAIN), hooks=hooks, environment=variables)
    approved = ApprovedHooks("", [each.hook.sha256 for each in hooks]) if is_approved else None
    executor = await executors.run(spec, approved_hooks=approved)
    assert await executor.exit_code() == 0, executor.said
    assert said(hub) == ["HOOK python", "HOOK bash"], hub.log()
    assert b"FORGED" not in hub.log()


@pytest.mark.engine
@pytest.mark.feature("H1.scripts")
async def test_a_hook_gets_the_variables_of_its_own_place_and_those_above(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    show = '#!/bin/sh\necho "HOOK [$A] [$B] [$C] [$TF_VAR_zone] [$NUMBER] [$TERRACREW_GROUP_PATH] [${TF_HTTP_ADDRESS:+state}]"\n'
    environments = [
        PlaceEnvironment("", {"A": "a of the organization"}),
        PlaceEnvironment(
            GROUP,
            {"A": "a of the organization", "B": "b of the group"},
            [DefinedInput("environment", "NUMBER", "job_number")],
        ),
    ]
    applying = {"A": "a of the module", "B": "b of the module", "C": "c of the module", "TF_VAR_zone": "z"}
    spec = executors.spec(
        JobType.PLAN,
        module(executors.folder / "source", main=MAIN),
        hooks=[hook(show, ""), hook(show), hook(show, MODULE)],
        environment=applying,
        definitions=[DefinedInput("environment", "NUMBER", "job_number")],
        hook_environments=environments,
    )
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    number = spec.number
    assert said(hub) == [
        f"HOOK [a of the organization] [] [] [z] [] [{GROUP}] [state]",
        f"HOOK [a of the organization] [b of the group] [] [z] [{number}] [{GROUP}] [state]",
        f"HOOK [a of the module] [b of the module] [c of the module] [z] [{number}] [{GROUP}] [state]",
    ]


@pytest.mark.engine
@pytest.mark.feature("H1.scripts")
async def test_where_modules_can_write_to_the_home_directory_a_hook_of_a_group_has_an_empty_one(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".curlrc").write_text("FORGED\n")
    show = '#!/bin/sh\necho "HOOK $(ls -A "$HOME" | wc -l)"; touch "$HOME/x" 2>/dev/null && echo HOOK written\n:\n'
    spec = executors.spec(
        JobType.PLAN, module(executors.folder / "source", main=MAIN), hooks=[hook(show), hook(show, MODULE)]
    )
    executor = await executors.run(
        spec,
        isolation=IsolationSettings(write_paths=[str(home)]),
        environment={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )
    assert await executor.exit_code() == 0, executor.said
    assert said(hub) == ["HOOK 0", "HOOK 1", "HOOK written"], hub.log()


@pytest.mark.feature("H2.approved")
@pytest.mark.parametrize(
    "name", ["PYTHONUSERBASE", "HOME", "PERLLIB", "GIT_SSH_COMMAND", "XDG_CONFIG_HOME", "LD_AUDIT"]
)
def test_an_approved_hook_loads_code_from_where_the_runner_says(name: str) -> None:
    assert hook_environment.approved({name: "evil", "TOKEN": "t"}, {}) == {"TOKEN": "t"}
    assert hook_environment.approved({name: "evil"}, {name: "good"}) == {name: "good"}
