"""Engines run as users of their own below a runner of root: a hostile module reaches neither its executor nor other attempts."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock, mounts
from terracrew.runner import engine_users
from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.gate import Gate
from tests.e2e.system import Process, System, eventually, lines_of, running

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(240),
    pytest.mark.feature("X4.isolation"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run engines as other users"),
]
FIRST_UID, LAST_UID = 23450, 23453
HOSTILE = """
resource "terraform_data" "thief" {
  provisioner "local-exec" {
    command = <<-EOT
    echo "WHO $(id -u) $(id -g) $(id -G)"
    attempt() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "DONE $name"; else echo "REFUSED $name"; fi; }
    attempt list-attempts ls @ROOT@/attempts
    attempt read-key cat @ROOT@/instance.key
    attempt read-token cat @ROOT@/worker.token
    attempt list-archives ls @ROOT@/cache/archives
    attempt list-workspaces ls @ROOT@/workspaces
    attempt list-engine-files ls @ROOT@/engine-files
    attempt read-other cat @OTHER@
    attempt write-other touch @OTHER@.new
    attempt replace-workspace mv "$PWD" "$PWD.moved"
    attempt read-server cat @SERVER@/master.key
    for pid in @PIDS@; do
      attempt environ-$pid cat /proc/$pid/environ
      attempt memory-$pid head -c 1 /proc/$pid/mem
      attempt maps-$pid cat /proc/$pid/maps
      attempt descriptors-$pid ls /proc/$pid/fd
      attempt kill-$pid kill -0 $pid
    done
    attempt own-file sh -c 'echo x > "$TMPDIR/x" && cat "$TMPDIR/x"'
    attempt own-home sh -c 'echo x > "$HOME/x"'
    ln -s /etc/shadow link; ln /bin/true hard 2>/dev/null; mkdir -m 000 closed; touch "$PWD/made"
    echo END
  EOT
  }
}
output "word" { value = "hello" }
"""
CHECK = r"""#!/bin/sh
[ "$(stat -c %g "$TERRACREW_PLAN_JSON")" = "$(id -g)" ] && stat -c 'MODE %a, group is our own' "$TERRACREW_PLAN_JSON"
grep -q '"actions":\["delete"\]' "$TERRACREW_PLAN_JSON" && exit 3
grep -q '"actions":\["create"\]' "$TERRACREW_PLAN_JSON" && echo "CHECKED $TERRACREW_HOOK $TERRACREW_STEP: create"
"""


@pytest.fixture
def system(tofu: str) -> Iterator[System]:
    """A system in a directory that every user can enter, unlike the temporary ones of a test."""
    directory = Path(tempfile.mkdtemp(prefix="terracrew-users-", dir="/tmp"))
    directory.chmod(0o755)
    program = directory / "bin" / "tofu"
    program.parent.mkdir(mode=0o755)
    try:
        try:
            program.hardlink_to(tofu)
        except OSError:
            shutil.copy2(tofu, program)
        with running(directory) as found:
            found.env["TERRACREW_CACHE"] = str(directory / "cache")
            found.env["TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS"] = str(program.parent)
            found.env["TERRACREW_EXECUTOR__USER"] = f"{FIRST_UID}-{LAST_UID}"
            del found.env["TERRACREW_EXECUTOR__WRITE_PATHS"]
            yield found
    finally:
        shutil.rmtree(directory)


def started(system: System) -> Process:
    system.start_server(runner=False)
    return system.start_runner(system.register_runner())


@pytest.mark.parametrize("isolation", ["landlock", "none"])
def test_a_hostile_module_is_refused_everything_that_is_not_its_own(system: System, gate: Gate, isolation: str) -> None:
    system.env["TERRACREW_EXECUTOR__ISOLATION"] = isolation
    runner = started(system)
    system.module("other", modules.gated_plan(gate.address))
    other = system.run("other")
    assert gate.reached.wait(60)
    root = system.runner_directory()
    [workspace] = (root / "workspaces").iterdir()
    executor = system.executor(other)
    assert workspace.stat().st_uid == FIRST_UID
    main = HOSTILE.replace("@ROOT@", str(root)).replace("@OTHER@", str(workspace / "main.tf"))
    main = main.replace("@PIDS@", f"{runner.pid} {executor}").replace("@SERVER@", str(system.data))
    system.module("thief", main)
    job = system.run("thief", "APPLY")
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    log = system.log(job)
    assert "END" in log
    [who] = [line.partition("WHO ")[2].split() for line in lines_of(system, job, "): WHO ")]
    assert who == [str(FIRST_UID + 1)] * 3, "two attempts at once have different users, and no further group"
    done = {line.partition("DONE ")[2] for line in lines_of(system, job, "): DONE ")}
    assert done == {"own-file", "own-home"}, log
    refused = {line.partition("REFUSED ")[2] for line in lines_of(system, job, "): REFUSED ")}
    assert len(refused) == 20
    gate.open()
    assert system.wait(other)["status"] == "SUCCEEDED"
    eventually(lambda: not any((root / "workspaces").iterdir()), what="the removal of the workspaces")
    eventually(lambda: not any((root / "engine-files").iterdir()), what="the removal of the engine's files")


@pytest.mark.feature("H1.plan", "J8.plan-first")
def test_the_hooks_of_a_group_read_the_plan_as_the_user_of_the_engine(system: System) -> None:
    script = system.directory / "check.sh"
    script.write_text(CHECK)
    started(system)
    system.module("net/app", 'resource "terraform_data" "it" {}\n')
    terracrew(system, "step", "set", "net", "plan", "--after", str(script))
    terracrew(system, "step", "set", "net", "apply", "--before", str(script))
    planned = system.run("net/app", "PLAN")
    assert system.wait(planned)["is_plan_applicable"], system.log(planned)
    applied = system.api.post(f"/jobs/{planned}/apply", {})["id"]
    assert system.wait(applied)["status"] == "SUCCEEDED", system.log(applied)
    assert [*lines_of(system, planned, "CHECKED")] == ["CHECKED after plan: create"]
    assert [*lines_of(system, applied, "CHECKED")] == ["CHECKED before apply: create"]
    modes = {*lines_of(system, planned, "MODE"), *lines_of(system, applied, "MODE")}
    assert modes == {"MODE 640, group is our own"}, "no other user can read it"
    refused = system.run("net/app", "DESTROY")
    assert system.wait(refused)["message"] == "plan failed: the hook after plan of `net` ended with exit code 3"
    assert len(system.state("net/app")["resources"]) == 1
    root = system.runner_directory()
    eventually(lambda: not any((root / "engine-files").iterdir()), what="the removal of the plans")


@pytest.fixture
def closed(tofu: str) -> Iterator[System]:
    """A system with the defaults of a runner of root, in a directory that only root can enter, as its home is."""
    with (
        tempfile.TemporaryDirectory(prefix="terracrew-closed-", dir="/tmp") as directory,
        running(Path(directory)) as found,
    ):
        for name in ("EXECUTOR__USER", "EXECUTOR__WRITE_PATHS", "SERVER_RUNNER_USER", "SERVER_RUNNER_WRITE_PATHS"):
            del found.env[f"TERRACREW_{name}"]
        found.env["TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS"] = str(Path(tofu).parent)
        yield found


@pytest.mark.skipif(
    not landlock.abi() or not mounts.is_available(), reason="this process may not make mount namespaces"
)
@pytest.mark.parametrize("is_built_in", [False, True], ids=["separate", "built-in"])
def test_by_default_engines_of_root_have_users_that_only_see_their_own_files(closed: System, is_built_in: bool) -> None:
    """A module below a runner of root was root, unless an operator had set `executor.user`."""
    runner = closed.start_server(runner=True) if is_built_in else started(closed)
    main = HOSTILE.replace("@ROOT@", str(closed.data / "runner" if is_built_in else closed.runner_directory()))
    main = main.replace("@OTHER@", str(closed.data / "terracrew.db")).replace("@PIDS@", str(runner.pid))
    closed.module("thief", main.replace("@SERVER@", str(closed.data)))
    job = closed.run("thief", "APPLY")
    assert closed.wait(job)["status"] == "SUCCEEDED", closed.log(job)
    [who] = [line.partition("WHO ")[2].split() for line in lines_of(closed, job, "): WHO ")]
    assert len(set(who)) == 1
    assert int(who[0]) in engine_users.USER_IDS
    assert {line.partition("DONE ")[2] for line in lines_of(closed, job, "): DONE ")} == {"own-file", "own-home"}
    closed.module("app", modules.quick())
    job = closed.run("app", "APPLY")
    assert closed.wait(job)["status"] == "SUCCEEDED", closed.log(job)


def test_without_a_view_a_runner_of_root_says_why_its_engines_are_root(closed: System) -> None:
    closed.env["TERRACREW_EXECUTOR__ISOLATION"] = "none"
    runner = started(closed)
    closed.module("app", modules.quick())
    job = closed.run("app", "APPLY")
    assert closed.wait(job)["status"] == "SUCCEEDED", closed.log(job)
    said = runner.log.read_text()
    assert "engines run as root, because they cannot run as other users here" in said
    assert "cannot enter /" in said
    assert "by their users only" not in said
    assert "executor.isolation is `none`" in said


def test_plan_and_apply_with_a_provider_run_as_another_user_and_users_are_used_again(system: System) -> None:
    started(system)
    system.module("app", modules.quick())
    kept: set[int | None] = set()
    for _ in range(LAST_UID - FIRST_UID + 3):
        job = system.run("app", "APPLY")
        ended = system.wait(job)
        assert ended["status"] == "SUCCEEDED", system.log(job)
        kept |= {step["kept_from"] for step in ended["steps"] if step["name"] == "init"}
    assert kept == {None, 1}, "what the first job kept is used by the other users"
    assert system.api.get("/modules/app/outputs")


def test_what_a_killed_executor_left_is_removed_although_it_belongs_to_another_user(system: System, gate: Gate) -> None:
    runner = started(system)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    executor = system.executor(job)
    runner.kill()
    os.kill(executor, signal.SIGKILL)
    gate.open()
    system.start_runner({**system.env, **_credentials(system)})
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    root = system.runner_directory()
    eventually(lambda: not any((root / "workspaces").iterdir()), what="the removal of the workspaces")


def _credentials(system: System) -> dict[str, str]:
    made = system.api.post("/runners/crew/reregister")
    return dict(made["environment"])
