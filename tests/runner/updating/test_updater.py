"""What an updater does with the folder of versions, and how it answers, without a release that is fetched."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from terracrew import __version__
from terracrew.protocol.messages import ArtifactRef, Update, UpdateReport
from terracrew.releases import minisign
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.runner.handover import SettingsSource
from terracrew.runner.updating import versions
from terracrew.runner.updating.updater import Updater
from terracrew.system import own_program

pytestmark = pytest.mark.feature("V3.update")

WAIT_SECONDS = 10.0


class Reports:
    """A connection that keeps what is reported."""

    on_update: Callable[[Update], None] | None = None

    def __init__(self) -> None:
        self.sent: list[UpdateReport] = []
        self.has_ended = asyncio.Event()

    def report_update(self, report: UpdateReport) -> None:
        self.sent.append(report)
        if report.status != "running":
            self.has_ended.set()

    async def access_token(self) -> str:
        return "token"

    async def send_rest(self, seconds: float) -> None:
        del seconds


def installed(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name / own_program.SITE).mkdir(parents=True)
        record = {"version": name, "python": versions.python_tag()}
        (folder / name / own_program.RECORD).write_text(json.dumps(record))


def make(directory: Path, connection: Reports, *, is_idle: bool, is_on_trial: bool = False, port: int = 9) -> Updater:
    key = str(minisign.SecretKey.generate().public_key)
    config = RunnerConfig(
        f"http://127.0.0.1:{port}", "rnr", "one", "id", "secret", str(directory), "/t", release_key=key
    )
    source = SettingsSource(None, {}, {}, {})
    return Updater(config, source, connection, Stop(), lambda: False, lambda: is_idle, is_on_trial=is_on_trial)


@pytest.mark.parametrize("is_idle", [False, True])
async def test_a_failed_update_keeps_the_versions_that_executors_may_run_from(tmp_path: Path, is_idle: bool) -> None:
    """A job that began two updates ago still imports from the version that it was started from."""
    folder = versions.folder_of(tmp_path)
    installed(folder, "1.0.0", "1.1.0", "1.2.0", ".99.0.0.new")
    (folder / "fetched").mkdir()
    versions.choose(folder, "1.2.0", "1.1.0", "upd_1")
    versions.begin(folder)
    assert versions.confirm(folder, "1.2.0", "")
    connection = Reports()
    running = asyncio.create_task(make(tmp_path, connection, is_idle=is_idle).run())
    assert connection.on_update is not None
    connection.on_update(Update("upd_2", "99.0.0", []))
    async with asyncio.timeout(WAIT_SECONDS):
        await connection.has_ended.wait()
    running.cancel()
    assert connection.sent[-1].status == "failed"
    assert connection.sent[-1].words == "the release has no wheel of terracrew"
    left = {each.name for each in folder.iterdir()} - set(versions.FILES)
    assert left == {"1.1.0", "1.2.0"} | (set() if is_idle else {"1.0.0"})


async def test_a_second_update_to_the_version_on_trial_is_done_when_that_has_proved_itself(tmp_path: Path) -> None:
    folder = versions.folder_of(tmp_path)
    installed(folder, __version__)
    versions.choose(folder, __version__, "", "upd_1")
    versions.begin(folder)
    connection = Reports()
    updater = make(tmp_path, connection, is_idle=True, is_on_trial=True)
    running = asyncio.create_task(updater.run())
    assert connection.on_update is not None
    connection.on_update(Update("upd_2", __version__, []))
    await asyncio.sleep(0)
    assert updater.confirm("it works")
    async with asyncio.timeout(WAIT_SECONDS):
        while not any(each.update_id == "upd_2" for each in connection.sent):
            await asyncio.sleep(0.01)
    running.cancel()
    assert {each.update_id: each.status for each in connection.sent} == {"upd_1": "done", "upd_2": "done"}


async def test_a_fetch_that_takes_long_says_how_far_it_is(tmp_path: Path) -> None:
    """The server gave an update up after ten minutes without a report, while the runner went on with it."""
    name, connection = "terracrew-99.0.0-py3-none-any.whl", Reports()
    arrived = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(1_500_000))
        await arrived.wait()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        updater = make(tmp_path, connection, is_idle=True, port=server.sockets[0].getsockname()[1])
        running = asyncio.create_task(updater.run())
        assert connection.on_update is not None
        connection.on_update(Update("upd_1", "99.0.0", [ArtifactRef(name, 3_000_000, "0" * 64, "")]))
        async with asyncio.timeout(WAIT_SECONDS):
            while not connection.sent or "1.5 of 3.0 MB" not in connection.sent[-1].words:
                await asyncio.sleep(0.05)
        assert (connection.sent[-1].status, connection.sent[-1].step) == ("running", "fetch")
        running.cancel()
        arrived.set()
