"""SIGHUP: a server reads its settings again, says what needs a restart, and keeps the old values if it cannot read them."""

import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.runner.reload import ConfigUpdates
from terracrew.server.process import builtin, shared_runners
from terracrew.server.process.reload import SettingsReload
from terracrew.settings.external.section import ExternalFacts
from terracrew.settings.server import ServerSettings
from tests.server.application import Application

TIMEOUT_SECONDS = 120.0


async def _until(process: asyncio.subprocess.Process, words: str) -> str:
    assert process.stdout is not None
    seen: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while line := (await process.stdout.readline()).decode():
                seen.append(line)
                if words in line:
                    return line
    raise AssertionError(f"the server did not print {words!r}: {seen}")


@pytest.mark.feature("T3.reload", "T3.hidden")
async def test_a_server_reads_its_settings_again(tmp_path: Path) -> None:
    secret, file = tmp_path / "days", tmp_path / "server.json"
    secret.write_text("31")
    file.write_text(json.dumps({"external": {"settings": {"retain_logs_days": f"file:{secret}"}}}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TERRACREW_")}
    options = ["--config", str(file), "--data-directory", str(tmp_path / "data"), "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "terracrew.cli",
        "server",
        *options,
        env={**environment, "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        await _until(process, "Terracrew is at")
        secret.write_text("4711")
        process.send_signal(signal.SIGHUP)
        line = await _until(process, "need a restart of the server")
        assert "settings=retain_logs_days" in line
        assert "4711" not in line
        secret.unlink()
        process.send_signal(signal.SIGHUP)
        line = await _until(process, "the old ones stay in effect")
        assert "retain_logs_days" in line
        assert "no such file or directory" in line
        process.send_signal(signal.SIGUSR2)  # it would not start with them, so it goes on
        assert "the old ones stay in effect" in await _until(process, "the settings were read again")
        secret.write_text("4712")
        process.send_signal(signal.SIGUSR2)
        await _until(process, "Terracrew is at")
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _reload(application: Application, readings: Sequence[ExternalFacts]) -> SettingsReload:
    """Return the reload of a server that started with `/start` and `START`, and then reads these."""
    given = application.server.settings.read_from(None, ExternalFacts(("/start",), ("START",)))
    found = [given.read_from(None, each) for each in readings]
    server = dataclasses.replace(application.server, settings=given)
    return SettingsReload(server, lambda: found.pop(0), given)


@pytest.mark.feature("T3.hidden", "T3.private")
async def test_what_an_earlier_reading_hid_stays_hidden_after_a_later_one(application: Application) -> None:
    """A second reload that named another secret file let jobs of built-in runners read the first one, and gave them its variable."""
    reload = _reload(application, [ExternalFacts((f"/{name}",), (name,)) for name in ("X", "Y", "Y")])
    published: list[ServerSettings] = []
    reload.on_hidden = published.append
    for _ in range(3):
        await reload.step(is_asked=True)
    assert [each.external_facts for each in published] == [
        ExternalFacts(("/start", "/X"), ("START", "X")),
        ExternalFacts(("/start", "/X", "/Y"), ("START", "X", "Y")),
    ]
    assert {Path("/start"), Path("/X"), Path("/Y")} <= {*published[-1].private_paths}


@pytest.mark.feature("T3.hidden", "T3.private")
async def test_a_built_in_runner_that_begins_after_a_reload_hides_what_it_named(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that got its record after a reload ran its jobs with what the server had hidden at its start."""
    reload = _reload(application, [ExternalFacts(("/X",), ("X",))])
    await reload.step(is_asked=True)
    begun = asyncio.get_running_loop().create_future()

    async def run(config: RunnerConfig, stop: Stop, *, set_levels: object, updates: ConfigUpdates) -> None:
        begun.set_result(config)
        await stop.exit.wait()

    monkeypatch.setattr(builtin.runner_process, "run", run)
    server, stop = application.server, Stop()
    runners = await shared_runners.declare(server, with_built_in=True)
    task = asyncio.create_task(builtin.run(server, runners, stop, reload))
    try:
        config = await asyncio.wait_for(begun, TIMEOUT_SECONDS)
    finally:
        stop.exit.set()
        await task
    assert config.secret_variables == ["START", "X"]
    assert {"/start", "/X"} <= {*config.isolation.private_paths}
