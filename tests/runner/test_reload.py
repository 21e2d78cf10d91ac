"""SIGHUP: a runner reads its settings again without dropping its connection, its jobs or its old values."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from terracrew.cli.commands.runner.start import start
from terracrew.runner import reload
from terracrew.runner.attempts.executor_starts import ExecutorStarts
from terracrew.runner.attempts.workspaces import EngineDirectories
from terracrew.runner.config import RunnerConfig
from terracrew.runner.handover import SettingsSource
from terracrew.runner.instance import LocalInstance
from terracrew.settings import layers
from tests.runner.conftest import TIMEOUT_SECONDS, Runners

RUNNER, ORGANIZATION = "rnr_" + "1" * 32, "org_" + "2" * 32
COMMAND = "from terracrew.cli.commands.runner.start import start; start()"


def write(file: Path, runners: Runners, secret: Path, **runner: object) -> None:
    content = {
        "server": {"url": runners.hub.url},
        "runner": {
            "id": RUNNER,
            "instance": "one",
            "organization_id": ORGANIZATION,
            "credentials": {"client_id": "sac_1"},
            **runner,
        },
        "working_directory": {"working_directory": str(runners.directory)},
        "external": {"settings": {"runner.credentials.client_secret": f"file:{secret}"}},
    }
    file.write_text(json.dumps(content))


class Lines:
    """What a runner prints."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.all: list[str] = []

    async def until(self, words: str) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while line := (await self._process.stdout.readline()).decode():
                self.all.append(line)
                if words in line:
                    return line
        raise AssertionError(f"the runner ended without {words!r}: {self.all}")


@asynccontextmanager
async def started(file: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, Lines]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERRACREW_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        COMMAND,
        "--config",
        str(file),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process, Lines(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.feature("T3.reload")
async def test_a_rotated_secret_is_used_without_a_new_connection(runners: Runners, tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "runner.json"
    secret.write_text("hush-one")
    write(file, runners, secret)
    async with started(file) as (process, lines):
        peer = await runners.hub.peer()
        await lines.until("connected to")
        secret.write_text("hush-two")
        write(file, runners, secret, capacity=9)
        process.send_signal(signal.SIGHUP)
        assert "changed: runner.credentials" in await lines.until("the settings were read again")
        assert "need a restart of the runner: runner.capacity" in await lines.until("need a restart")
        assert not peer.closed.is_set()
        await peer.hang_up()
        await runners.hub.peer()
        assert [form["client_secret"] for form in runners.hub.forms] == ["hush-one", "hush-two"]
        assert "hush" not in "".join(lines.all)


@pytest.mark.feature("T3.reload")
async def test_a_signal_that_comes_while_the_runner_starts_is_not_lost(runners: Runners, tmp_path: Path) -> None:
    """A service manager may reload a service that it has just started; the signal ended the runner."""
    secret, file = tmp_path / "secret", tmp_path / "runner.json"
    os.mkfifo(secret)  # so that its settings are not complete yet
    write(file, runners, secret)
    async with started(file) as (process, lines):
        with await asyncio.to_thread(secret.open, "w") as writer:  # when this returns, the settings are being read
            process.send_signal(signal.SIGHUP)
            secret.unlink()
            secret.write_text("hush-two")
            writer.write("hush-one")
        await runners.hub.peer()
        assert "changed: runner.credentials" in await lines.until("the settings were read again")


def test_a_command_that_does_not_become_a_runner_reacts_to_signals_as_before(tmp_path: Path) -> None:
    """The next program that the process started ignored every SIGHUP."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    result = CliRunner().invoke(start, ["--check", "--config", str(tmp_path / "missing.json")])
    assert result.exit_code
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.feature("T3.reload", "A4.command")
async def test_a_secret_is_replaced_by_a_credential_helper_without_a_new_connection(
    runners: Runners, tmp_path: Path
) -> None:
    secret, file = tmp_path / "secret", tmp_path / "runner.json"
    secret.write_text("hush-one")
    write(file, runners, secret)
    async with started(file) as (process, lines):
        peer = await runners.hub.peer()
        await lines.until("connected to")
        helper = {"command": "/bin/echo", "args": ['{"token": "hush.e.two"}']}
        write(file, runners, secret, credentials={"client_id": "sac_1", "helper": helper})
        content = json.loads(file.read_text())
        del content["external"]
        file.write_text(json.dumps(content))
        process.send_signal(signal.SIGHUP)
        assert "runner.credentials" in await lines.until("the settings were read again")
        assert not peer.closed.is_set()
        await peer.hang_up()
        await runners.hub.peer()
        first, second = runners.hub.forms
        assert (first["client_secret"], second["subject_token"]) == ("hush-one", "hush.e.two")
        assert "client_secret" not in second
        assert "hush" not in "".join(lines.all)


@pytest.mark.feature("T3.reload", "T3.hidden")
async def test_settings_that_cannot_be_read_again_leave_the_old_ones(runners: Runners, tmp_path: Path) -> None:
    secret, file = tmp_path / "secret", tmp_path / "runner.json"
    secret.write_text("hush-one")
    write(file, runners, secret)
    async with started(file) as (process, lines):
        peer = await runners.hub.peer()
        await lines.until("connected to")
        secret.unlink()
        process.send_signal(signal.SIGHUP)
        await lines.until("the old ones stay in effect")
        assert "cannot be read: no such file or directory" in await lines.until("runner.credentials.client_secret")
        await peer.hang_up()
        await runners.hub.peer()
        assert {form["client_secret"] for form in runners.hub.forms} == {"hush-one"}


@pytest.mark.feature("T3.reload", "T3.hidden")
async def test_jobs_get_no_secret_that_an_earlier_or_a_later_reading_named(runners: Runners, tmp_path: Path) -> None:
    """The old secret may be valid for a while, and the runner had the variable when it started."""
    one, two, file = tmp_path / "one", tmp_path / "two", tmp_path / "runner.json"
    one.write_text("hush-one")
    two.write_text("hush-two")
    write(file, runners, one)
    config, given = layers.load(file), {"CREW_SECRET": "hush-three", "PATH": "/bin"}
    instance = LocalInstance(str(runners.directory))
    starts = ExecutorStarts(config, instance, EngineDirectories(instance.engine_directories), given)
    updates = reload.ConfigUpdates()
    updates.attach(starts.use_config)
    again = reload.Reload(config, SettingsSource(str(file), {}, {}, {"CREW_SECRET": "9"}), updates)
    write(file, runners, two)
    content = json.loads(file.read_text())
    content["external"]["settings"]["runner.capacity"] = "variable:CREW_SECRET"
    file.write_text(json.dumps(content))
    await again.step(is_asked=True)
    started_with = starts.for_salvage(tmp_path, "http://crew.test")
    instance.release()
    assert again.config.client_secret == "hush-two"
    assert {str(file), str(one), str(two)} <= set(started_with.isolation.private_paths)
    assert started_with.environment == {"PATH": "/bin"}


@pytest.mark.feature("T3.reload")
def test_every_setting_either_applies_or_needs_a_restart() -> None:
    not_settings = {"is_built_in", "environment_patterns", "is_for_one_job", "executor_entry", "installation"}
    assert set(RunnerConfig.__struct_fields__) == {*reload.APPLIED, *reload.NEED_RESTART, *not_settings}
