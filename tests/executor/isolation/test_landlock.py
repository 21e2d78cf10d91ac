"""A hostile module with the real engine: what it can reach on the machine of its runner, and what it cannot."""

import _thread
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock
from terracrew.executor.isolation.landlock import Ruleset, Surroundings
from terracrew.protocol.events import Stream
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from terracrew.toolchains import cache as engines

pytestmark = [pytest.mark.engine, pytest.mark.feature("X4.isolation")]
needs_landlock = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
needs_scopes = pytest.mark.skipif(landlock.abi() < 6, reason="this kernel's Landlock does not scope signals")


def script(*commands: str) -> str:
    """A module that runs a script, which goes on after a command that fails. Provisioners run `/bin/sh -c`."""
    lines = "\n".join(commands)
    return f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{\n    command = <<-EOT\n{lines}\nEOT\n  }}\n}}\n'


def plain(hub: FakeExecutorHub) -> str:
    """What the engine printed, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", hub.log().decode())


async def log_of(
    hub: FakeExecutorHub,
    executors: ExecutorProcesses,
    folder: Path,
    main: str,
    isolation: IsolationSettings,
    **more: str,
) -> str:
    """Run an APPLY of the module as its runner would, and return its log without colours."""
    (folder / "tmp").mkdir()
    given = IsolationSettings(
        isolation.mode,
        isolation.read_paths,
        [*isolation.write_paths, str(folder / "tmp")],
        [str(executors.directory), str(executors.cache), str(executors.workspaces)],
    )
    spec = executors.spec(JobType.APPLY, module(folder / "m", main=main))
    environment = executors.start_of(spec).environment | {"TMPDIR": str(folder / "tmp")} | more
    executor = await executors.run(spec, isolation=given, environment=environment)
    assert await executor.exit_code() == 0, executor.said
    return plain(hub)


@needs_landlock
async def test_a_module_cannot_read_what_its_runner_and_its_server_keep(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    """A plan read `instance.key`, its own `attempt.json`, the server's master key and other attempts' directories."""
    secrets = [
        tmp_path / name
        for name in ("instance.key", "attempts/job_2.1/attempt.json", "server/master.key", "home/.terracrew/token")
    ]
    for secret in secrets:
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text("the-secret-itself")
    secrets.append(executors.directory / "attempt.json")
    tried = [f"cat {path} || echo denied-{number}" for number, path in enumerate(secrets)]
    listed = [
        f"ls {path} && echo listed"
        for path in (tmp_path, executors.directory, executors.workspaces, tmp_path / "attempts")
    ]
    log = await log_of(hub, executors, tmp_path, script(*tried, *listed, "echo done"), IsolationSettings())
    assert hub.result.status == "SUCCEEDED", log
    assert [f"denied-{number}" in log for number in range(len(secrets))] == [True] * len(secrets)
    assert "the-secret-itself" not in log
    assert ": listed" not in log


@needs_landlock
async def test_functions_of_the_language_cannot_read_it_either(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    (tmp_path / "instance.key").write_text("the-secret-itself")
    main = f'output "key" {{ value = file("{tmp_path}/instance.key") }}\n'
    log = await log_of(hub, executors, tmp_path, main, IsolationSettings())
    assert hub.result.status == "FAILED"
    assert "permission denied" in log
    assert "executor.read_paths" in hub.log(Stream.SYSTEM).decode(), "the log names the settings that allow more"


@needs_landlock
async def test_a_module_cannot_write_outside_of_its_own_directories(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    """The caches of plug-ins and engines, which other jobs run programs from, were writable by every job."""
    cache = executors.cache / "plugins"
    cache.mkdir(parents=True)
    targets = [cache / "evil", tmp_path / "evil", Path("/usr/local/bin/evil"), Path("/etc/evil"), Path("/tmp/evil-job")]
    engine = engines.root() / "engines" / "evil"
    tried = [f"echo x > {path} && echo written-{path}" for path in (*targets, engine)]
    log = await log_of(hub, executors, tmp_path, script(*tried, "echo done"), IsolationSettings())
    assert hub.result.status == "SUCCEEDED", log
    assert "): written-" not in log
    assert not any(path.exists() for path in (*targets, engine))


@needs_landlock
async def test_a_module_cannot_look_into_other_processes(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    """The worker token was read from the runner's memory, and environments of other processes from /proc."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        env={"TOKEN": "the-secret-itself"},
    ) as victim:
        try:
            tried = [
                f"head -c 1 /proc/{victim.pid}/{name} > /dev/null && echo read-{name}"
                for name in ("environ", "mem", "maps")
            ]
            tried += [
                f"readlink /proc/{victim.pid}/cwd && echo read-cwd",
                f"stat -L /proc/{victim.pid}/root && echo read-root",
            ]
            main = script(*tried, "cat /proc/self/status | grep NoNewPrivs", "echo done")
            log = await log_of(hub, executors, tmp_path, main, IsolationSettings())
        finally:
            victim.kill()
    assert hub.result.status == "SUCCEEDED", log
    assert "): read-" not in log
    assert "NoNewPrivs:\t1" in log


@needs_scopes
async def test_a_module_cannot_send_signals_to_its_runner(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as victim:
        try:
            tried = f"kill -TERM {victim.pid} && echo signalled; kill -9 {os.getpid()} && echo signalled"
            log = await log_of(
                hub, executors, tmp_path, script(tried, "sleep 60 & kill $! && echo own child"), IsolationSettings()
            )
            assert victim.poll() is None
        finally:
            victim.send_signal(signal.SIGKILL)
    assert "): signalled" not in log
    assert "): own child" in log, "it may still end what it started"


async def test_what_modules_usually_do_still_works(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    """Provisioners with a shell, git and curl, temporary files, credentials at their standard places, sockets."""
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws" / "credentials").write_text("a-profile")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "package").write_text("from-the-mirror")
    (home / ".tofurc").write_text(
        f'provider_installation {{\n filesystem_mirror {{ path = "{tmp_path}/mirror" }}\n}}\n'
    )
    (tmp_path / "kube").write_text("a-cluster")
    (tmp_path / "extra").write_text("what-an-operator-allowed")
    (tmp_path / "out").mkdir()
    commands = [
        "cat $HOME/.aws/credentials; echo",
        f"cat {tmp_path}/mirror/package; echo",
        "cat $KUBECONFIG; echo",
        f"cat {tmp_path}/extra; echo",
        f"echo x > {tmp_path}/out/file && echo wrote-out",
        "f=$(mktemp) && echo x > $f && mkdir $TMPDIR/d && mv $f $TMPDIR/d/f && echo moved-temporary",
        "git init -q repo && git -C repo -c user.name=a -c user.email=b commit -q --allow-empty -m c && echo committed",
        "curl -s -o /dev/null $TERRACREW_ENDPOINT/ ; echo curl-$?",
        "echo to-stderr > /dev/stderr; echo x > /dev/null; head -c 4 /dev/urandom | wc -c",
        'python3 -c \'import socket,os; s=socket.socket(socket.AF_UNIX); s.bind(os.environ["TMPDIR"]+"/s"); print("bound")\'',
        "getent hosts localhost > /dev/null && echo resolved",
    ]
    allowed = IsolationSettings(read_paths=[str(tmp_path / "extra")], write_paths=[str(tmp_path / "out")])
    environment = {"HOME": str(home), "KUBECONFIG": str(tmp_path / "kube")}
    log = await log_of(hub, executors, tmp_path, script(*commands, "true"), allowed, **environment)
    assert hub.result.status == "SUCCEEDED", log
    for text in (
        "a-profile",
        "from-the-mirror",
        "a-cluster",
        "what-an-operator-allowed",
        "wrote-out",
        "moved-temporary",
        "committed",
        "curl-0",
        "to-stderr",
        "bound",
        "resolved",
    ):
        assert f"): {text}" in log, text


async def test_a_module_opens_nothing_by_its_own_environment(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    if not landlock.abi():
        pytest.skip("this kernel has no Landlock")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "instance.key").write_text("the-secret-itself")
    environment = {
        "KUBECONFIG": str(tmp_path / "instance.key"),
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}:/usr/bin:/bin",
    }
    spec = executors.spec(
        JobType.APPLY, module(tmp_path / "m", main=script("cat $KUBECONFIG || echo denied")), environment=environment
    )
    isolation = IsolationSettings(write_paths=[str(tmp_path / "tmp")], private_paths=[str(tmp_path)])
    executor = await executors.run(spec, isolation=isolation)
    assert await executor.exit_code() == 0, executor.said
    assert "): denied" in plain(hub)


async def test_without_isolation_everything_is_as_the_user_of_the_runner_may(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    (tmp_path / "instance.key").write_text("readable")
    log = await log_of(
        hub, executors, tmp_path, script(f"cat {tmp_path}/instance.key; echo"), IsolationSettings("none")
    )
    assert "): readable" in log


def test_a_tree_is_given_without_the_private_part_of_it(tmp_path: Path) -> None:
    for name in ("a/secret", "a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
    beside = Surroundings([str(tmp_path / "a" / "secret")])
    assert sorted(beside.parts(str(tmp_path))) == [str(tmp_path / "a" / "b"), str(tmp_path / "c")]
    assert list(beside.parts(str(tmp_path / "a" / "secret" / "x"))) == []
    assert list(beside.parts(str(tmp_path / "c"))) == [str(tmp_path / "c")]


def test_nothing_of_a_private_directory_is_given_even_if_a_part_of_it_is_named_too(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "secret" / "more").mkdir(parents=True)
    (tmp_path / "secret" / "beside").touch()
    beside = Surroundings([str(tmp_path / "secret"), str(tmp_path / "secret" / "more")])
    assert list(beside.parts(str(tmp_path))) == [str(tmp_path / "open")]


def test_a_path_is_resolved_through_its_links_and_only_if_it_leads_somewhere(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "broken").symlink_to("nowhere")
    assert landlock.resolved(str(tmp_path / "link")) == os.path.realpath(tmp_path / "real")
    assert landlock.resolved(str(tmp_path / "broken")) is None
    assert landlock.resolved(str(tmp_path / "absent")) is None


@needs_landlock
def test_nothing_is_started_if_there_can_be_no_further_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine was started, and nobody knew of it: the thread for the next one could not be made."""
    ruleset = Ruleset([])
    done: list[str] = []

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(_thread, "start_new_thread", refuse)
        with pytest.raises(OSError, match="no thread could be made"):
            ruleset.run(lambda: done.append("started") or True)
    assert ruleset.run(lambda: done.append("later") or True)
    assert done == ["later"]
    ruleset.close()
