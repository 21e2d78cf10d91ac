"""An executor that starts when its attempt has long been handed back."""

import asyncio
import os
from pathlib import Path

import pytest

from terracrew.attempt import directories, exit_codes, ownership
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local.zygote_client import ZygoteClient
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, granted


async def test_a_start_whose_directory_was_removed_ends_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The process that starts executors was stopped; the runner gave the attempt back and removed its directory."""
    directory = directories.create(tmp_path, granted(), "http://server")
    ownership.forbid_start(directory)
    directories.remove(directory)
    helper = ZygoteClient(
        "tests.runner.scripted_executor_process:run", {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"}
    )
    try:
        forked = await helper.fork(
            ExecutorStart("http://server", str(directory), str(tmp_path), str(tmp_path), str(tmp_path), {}, granted())
        )
        os.close(forked.pidfd)
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await forked.exit_code == exit_codes.IN_USE
    finally:
        await helper.close()
    assert "Traceback" not in capfd.readouterr().err
