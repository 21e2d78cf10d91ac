"""Real launchers and runners, started from an environment with a real wheel, against a fake hub that offers further wheels."""

import asyncio
import hashlib
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terracrew.protocol.messages import ArtifactRef, RunnerWelcome, TrialReport, Update, UpdateReport
from terracrew.releases import minisign
from terracrew.runner.updating import versions
from terracrew.runner.updating.versions import Current
from terracrew.system import procfs
from tests.builders import fake_runner_hub
from tests.builders.fake_runner_hub import FakeRunnerHub, Peer
from tests.machine import environments, wheels

INSTALLED, NEW, NEXT = "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0-rc.3"
RUNNER, ORGANIZATION = "rnr_" + "1" * 32, "org_" + "2" * 32
SECRET = "hush-hush-hush"
TRIAL_SECONDS = 20.0
"""How long a trial may take on the test's machine, instead of a minute."""
TIMEOUT_SECONDS = 60.0
KEY = minisign.SecretKey.generate()
_SOURCES = Path(versions.__file__).parents[2]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `terracrew` of an environment with the version that everything begins with. Its launcher waits for a shorter time."""
    launcher = "runner/updating/launcher.py"
    text = (_SOURCES / launcher).read_text().replace("TRIAL_SECONDS = 60.0", f"TRIAL_SECONDS = {TRIAL_SECONDS}")
    assert f"TRIAL_SECONDS = {TRIAL_SECONDS}" in text
    return environments.make(tmp_path_factory.mktemp("environment") / "venv", wheels.build(INSTALLED, {launcher: text}))


def signed(path: Path, version: str, name: str = "", key: minisign.SecretKey = KEY) -> ArtifactRef:
    """A file of a release as the server announces it."""
    name, content = name or path.name, path.read_bytes()
    signature = minisign.sign(key, content, minisign.release_comment(version, name))
    return ArtifactRef(name, len(content), hashlib.sha256(content).hexdigest(), signature)


class Started:
    """A process `terracrew runner start`: the launcher."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process, self.log, self.pid = process, log, process.pid

    @property
    def runner(self) -> int:
        """The id of its child, the runner."""
        (child,) = procfs.children(self.pid)
        return child

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self._process.wait()

    async def kill(self) -> int:
        if self._process.returncode is None:
            self._process.kill()
        return await self.ended()


class Machine:
    """A machine with a runner: its environment, its working directory, and what its server offers."""

    def __init__(self, program: Path, hub: FakeRunnerHub, directory: Path) -> None:
        self.program, self.hub, self.directory = program, hub, directory
        self.work = directory / "work"
        self._started: list[Started] = []
        self._numbers = itertools.count(1)

    @property
    def versions(self) -> Path:
        return self.work / versions.FOLDER

    @property
    def current(self) -> Current:
        return versions.read(self.versions)

    def environment(self, **changes: str) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(("TERRACREW_", "PYTHON"))}
        return {
            **own,
            "TERRACREW_API_URL": self.hub.url,
            "TERRACREW_RUNNER__ID": RUNNER,
            "TERRACREW_RUNNER__INSTANCE": "one",
            "TERRACREW_RUNNER__ORGANIZATION_ID": ORGANIZATION,
            "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": RUNNER,
            "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": SECRET,
            "TERRACREW_RUNNER__SELF_UPDATE": "true",
            "TERRACREW_RUNNER_RELEASE_KEY": str(KEY.public_key),
            "TERRACREW_WORKING_DIRECTORY__WORKING_DIRECTORY": str(self.work),
            **changes,
        }

    async def start(self, *arguments: str, **changes: str) -> Started:
        log = self.directory / f"runner-{next(self._numbers)}.log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                str(self.program),
                "runner",
                "start",
                *arguments,
                env=self.environment(**changes),
                stdout=file,
                stderr=file,
                cwd="/",
            )
        self._started.append(Started(process, log))
        return self._started[-1]

    async def connected(self, version: str) -> tuple[Started, Peer]:
        """Start a runner, and return it with its connection."""
        started = await self.start()
        return started, await self.peer(version)

    async def peer(self, version: str, *, is_on_trial: bool = False) -> Peer:
        """Return the next connection, which must be that of this version."""
        peer = await self.hub.peer()
        assert (peer.hello.version, peer.hello.is_on_trial) == (version, is_on_trial), self.logs()
        return peer

    def offer(self, version: str, *artifacts: ArtifactRef, files: Mapping[str, Path] | None = None) -> Update:
        for name, path in (files or {}).items():
            self.hub.files[name] = path.read_bytes()
        return Update(f"upd_{next(self._numbers)}", version, list(artifacts))

    def release(self, version: str, changes: Mapping[str, str] | None = None) -> Update:
        """Offer a wheel of this tree as a release of this version."""
        wheel = wheels.build(version, changes)
        return self.offer(version, signed(wheel, version), files={wheel.name: wheel})

    async def outcome(self, peer: Peer, update: Update) -> UpdateReport:
        """Return the report with which an update ends on this connection."""
        while True:
            report = await peer.receive(UpdateReport)
            assert report.update_id == update.update_id
            if report.status != "running":
                return report

    async def updated(self, peer: Peer, update: Update) -> Peer:
        """Update a runner, and return the connection of the new version, which has proved itself."""
        await peer.send(update)
        new = await self.peer(update.version, is_on_trial=True)
        assert (await new.receive(TrialReport)).is_passed
        await new.send(update)  # as a server does that has not seen the end yet
        assert (await self.outcome(new, update)).status == "done"
        return new

    def logs(self) -> str:
        return "\n".join(f"--- {each.log.name}\n{each.log.read_text()[-3000:]}" for each in self._started)

    async def close(self) -> None:
        for each in self._started:
            await each.kill()


@pytest.fixture
async def machine(installed: Path, tmp_path: Path) -> AsyncIterator[Machine]:
    async with fake_runner_hub.serving() as hub:
        hub.welcome = RunnerWelcome(
            instance_id="ins_1",
            epoch=1,
            protocol=hub.welcome.protocol,
            heartbeat_seconds=0.5,
            unknown=[],
        )
        made = Machine(installed, hub, tmp_path)
        try:
            yield made
        finally:
            await made.close()


def written(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "current.json").read_bytes())


TERM, INT, HUP, KILL = signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL
