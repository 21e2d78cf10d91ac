"""A runner on trial: it takes no job before a no-op job has passed, and exits if that fails."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from terracrew.errors import EngineMissing
from terracrew.protocol.messages import Credits, Granted, HandBack, Heartbeat, TrialReport
from terracrew.runner import trial
from terracrew.runner.attempts.reports import Reports
from terracrew.runner.attempts.slots import Slots
from terracrew.runner.attempts.supervisor import AttemptSupervisor
from terracrew.runner.config import RunnerConfig
from terracrew.runner.dispatch.dispatchers import Dispatchers
from terracrew.runner.dispatch.local.dispatcher import Local
from terracrew.runner.dispatch.protocol import AttemptEnd
from terracrew.runner.instance import LocalInstance
from terracrew.toolchains import discovery
from tests.builders.fake_runner_hub import Peer
from tests.runner.conftest import Runners, granted, until_gone

pytestmark = pytest.mark.feature("V3.trial")

REAL = RunnerConfig("", "", "", "", "", "", "").executor_entry


def _engine(folder: Path, does: str) -> str:
    """A program that says that it is OpenTofu 1.12.9, and does this for every other command."""
    folder.mkdir()
    program = folder / "tofu"
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = version ]; then echo \'{{"terraform_version": "1.12.9"}}\'; exit 0; fi\n{does}\n'
    )
    program.chmod(0o755)
    return str(folder)


async def _two_heartbeats(peer: Peer) -> Heartbeat:
    await peer.receive(Heartbeat)
    return await peer.receive(Heartbeat)


async def test_it_takes_jobs_after_a_real_engine_has_applied_a_configuration_that_changes_nothing(
    runners: Runners,
) -> None:
    try:
        version = discovery.require("tofu").version
    except EngineMissing:
        pytest.skip("OpenTofu is not installed")
    runner = await runners.start(executor_entry=REAL, is_on_trial=True, cgroup="off")
    peer = await runners.hub.peer()
    assert (peer.hello.is_on_trial, peer.hello.is_draining, peer.hello.drain_reason) == (True, True, "on trial")
    await peer.send(granted())
    handed_back = await peer.receive(HandBack)
    assert (handed_back.job_id, handed_back.reason) == ("job_1", "this runner takes no new jobs: it is on trial")
    said = await _two_heartbeats(peer)
    assert (said.is_draining, said.drain_reason, said.attempts) == (True, "on trial", [])
    assert peer.received(Credits) == []
    report = await peer.receive(TrialReport)
    assert report.is_passed, report.words
    assert f"OpenTofu {version} ran init, plan and apply" in report.words
    assert 0 < report.seconds < trial.MAX_SECONDS
    assert (await peer.receive(Credits)).slots >= 3
    assert not (await _two_heartbeats(peer)).is_draining
    for name in ("trials", "attempts", "workspaces", "engine-files", "outputs"):
        assert not any((runners.directory / name).iterdir()), name
    await peer.hang_up()
    again = await runners.hub.peer()
    assert not again.hello.is_on_trial
    assert await again.receive(TrialReport) == report, "the first one may not have arrived"
    runner.signal(15)
    assert await runner.ended() == 0


async def test_it_exits_with_the_reason_if_its_engine_fails(runners: Runners) -> None:
    paths = [_engine(runners.directory.parent / "bin", "echo 'Error: nothing works' >&2; exit 1")]
    runner = await runners.start(executor_entry=REAL, is_on_trial=True, engine_paths=paths, cgroup="off")
    peer = await runners.hub.peer()
    report = await peer.receive(TrialReport)
    assert not report.is_passed
    assert "OpenTofu 1.12.9 did not run init, plan and apply" in report.words
    assert "nothing works" in report.words
    assert await runner.ended() == 1
    assert "this runner cannot run jobs: OpenTofu 1.12.9" in runner.output
    assert peer.received(Credits) == []


async def test_what_a_killed_runner_left_of_its_trial_is_ended(runners: Runners) -> None:
    paths = [_engine(runners.directory.parent / "bin", "sleep 600; exit 1")]
    runner = await runners.start(executor_entry=REAL, is_on_trial=True, engine_paths=paths, cgroup="off")
    await runners.hub.peer()
    async with asyncio.timeout(60):
        while not _programs(paths[0]):
            await asyncio.sleep(0.05)
    await runner.kill()
    [left] = (runners.directory / "trials").iterdir()
    async with _supervising(runners.directory, paths) as supervisor:
        supervisor.recover()
        assert supervisor.refs == [], "no server knows of it"
        await until_gone(left)
        assert not _programs(paths[0])
        supervisor.stop_watching()


@asynccontextmanager
async def _supervising(directory: Path, engine_paths: list[str]) -> AsyncGenerator[AttemptSupervisor]:
    """The part of a runner that starts executors, in this process; it does not wait long before it kills one."""
    config = RunnerConfig(
        server_url="http://127.0.0.1:1",
        runner_id="rnr_1",
        instance="one",
        client_id="",
        client_secret="",
        working_directory=str(directory),
        temp_directory=str(directory / ".temp"),
        engine_paths=engine_paths,
    )
    dispatcher, instance = Local(REAL, dict(os.environ), engine_paths, kill_seconds=1.0), LocalInstance(str(directory))
    try:
        async with asyncio.TaskGroup() as tasks:
            yield AttemptSupervisor(
                config, instance, Dispatchers.only(dispatcher), Slots(1), Reports(), dict(os.environ), tasks
            )
    finally:
        await dispatcher.close()
        instance.release()


def _programs(folder: str) -> list[str]:
    """The engines of this folder that hang."""
    found: list[str] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        found += [name] if command.startswith(f"/bin/sh\0{folder}/".encode()) else []
    return found


async def test_an_engine_that_hangs_is_killed(tmp_path: Path) -> None:
    paths = [_engine(tmp_path / "bin", "sleep 600; exit 1")]
    async with _supervising(tmp_path / "work", paths) as supervisor:
        proved = await trial.prove(supervisor, {"tofu": "1.12.9"}, is_engine_installed=False, max_seconds=2.0)
    assert not proved.is_passed
    assert "it had not ended after 2 s, and was killed" in proved.words
    assert not any((tmp_path / "work" / "trials").iterdir())
    assert not _programs(paths[0])


class _Elsewhere:
    """A runner whose executors are in containers, or that has no engine: nothing is started."""

    def __init__(self, dispatcher: str) -> None:
        self.default_dispatcher = dispatcher

    async def run_unknown(self, granted: Granted, server_url: str, max_seconds: float) -> AttemptEnd:
        raise AssertionError("nothing may be started")


NOTHING_RUN: list[tuple[str, dict[str, str], bool, bool, str]] = [
    ("local", {}, False, False, "this runner has no engine, and does not install one on demand (engine.install)"),
    ("local", {}, True, True, "this runner has no engine yet, so none was run: it installs the one that a job needs"),
    ("local", {"notes": "1"}, False, True, "no configuration that changes nothing is known for notes, so none was run"),
    ("docker", {"tofu": "1.12.0"}, False, True, "the dispatcher docker answers: its executors have OpenTofu 1.12.0"),
    ("docker", {}, True, False, "the dispatcher docker does not say which engines its executors have"),
]


@pytest.mark.parametrize(("dispatcher", "engines", "is_installed", "is_passed", "words"), NOTHING_RUN)
async def test_a_runner_that_cannot_run_the_no_op_job_itself_says_so(
    dispatcher: str, engines: dict[str, str], is_installed: bool, is_passed: bool, words: str
) -> None:
    proved = await trial.prove(_Elsewhere(dispatcher), engines, is_engine_installed=is_installed)
    assert proved.is_passed is is_passed
    assert proved.words.startswith(words)
