"""SIGHUP: a server reads its settings again, says what needs a restart, and keeps the old values if it cannot read them."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest

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
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
