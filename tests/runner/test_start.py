"""`terracrew runner start`: from settings to a connected process that has forgotten its secrets."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from terracrew.cli.commands.runner.start import start
from terracrew.errors import Invalid
from tests.runner.conftest import TERM, TIMEOUT_SECONDS, Runners

RUNNER, ORGANIZATION = "rnr_" + "1" * 32, "org_" + "2" * 32
COMMAND = "from terracrew.cli.commands.runner.start import start; start()"


def _environment(runners: Runners) -> dict[str, str]:
    return {
        **os.environ,
        "TERRACREW_API_URL": runners.hub.url,
        "TERRACREW_RUNNER__ID": RUNNER,
        "TERRACREW_RUNNER__ORGANIZATION_ID": ORGANIZATION,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": RUNNER,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": "hush-hush",
    }


@pytest.mark.feature("A2.exchange", "T2.layers")
async def test_the_command_becomes_a_runner_whose_process_shows_no_secret(runners: Runners) -> None:
    options = ["--instance", "two", "--working-directory", str(runners.directory), "--set", "runner.capacity=9"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COMMAND, *options, env=_environment(runners), stdout=asyncio.subprocess.DEVNULL
    )
    try:
        peer = await runners.hub.peer()
        assert (peer.hello.runner_id, peer.hello.instance, peer.hello.capacity) == (RUNNER, "two", 9)
        assert runners.hub.forms[0]["client_id"] == f"{ORGANIZATION}:{RUNNER}"
        assert runners.hub.forms[0]["client_secret"] == "hush-hush"
        for shown in ("environ", "cmdline"):
            if shown == "environ" and os.geteuid() != 0:
                with pytest.raises(PermissionError):
                    Path(f"/proc/{process.pid}/{shown}").read_bytes()
                continue
            content = Path(f"/proc/{process.pid}/{shown}").read_bytes()
            assert b"hush-hush" not in content
            assert b"TERRACREW_" not in content
        process.send_signal(TERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.feature("T5.start")
def test_wrong_settings_end_the_command_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("TERRACREW_")]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(start, ["--set", "runner.capacity=none"])
    assert isinstance(result.exception, Invalid)
    assert "runner.capacity (option --set runner.capacity)" in result.exception.message
    assert CliRunner().invoke(start, ["--set", "nonsense"]).exit_code == 2


@pytest.mark.feature("T5.start")
def test_settings_can_be_checked_without_starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runner.json"
    file.write_text(
        f'{{"server": {{"url": "http://127.0.0.1:1"}}, "runner": {{"id": "{RUNNER}", "organization_id": '
        f'"{ORGANIZATION}", "instance": "one", "credentials": {{"client_id": "c", "client_secret": "s"}}}}}}'
    )
    monkeypatch.setenv("TERRACREW_RUNNER_CONFIG", str(file))
    result = CliRunner().invoke(start, ["--check"])
    assert (result.exit_code, result.output) == (0, "the settings are valid\n")
