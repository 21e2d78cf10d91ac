"""Builds what an executor is started with, for one attempt."""

import hashlib
import os
import secrets
import stat
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.protocol.messages import AttemptRef, Granted, WaitingStart
from terracrew.protocol.spec import ApprovedHooks
from terracrew.protocol.start import EngineAccount, ExecutorStart, IsolationSettings, WarmSettings
from terracrew.runner import departure, engine_users, isolation
from terracrew.runner.attempts.workspaces import EngineDirectories
from terracrew.runner.config import RunnerConfig
from terracrew.runner.instance import LocalInstance

_WARM_SECRET_BYTES = 32


class ExecutorStarts:
    def __init__(
        self,
        config: RunnerConfig,
        instance: LocalInstance,
        engine_directories: EngineDirectories,
        environment: Mapping[str, str],
    ) -> None:
        self._config, self._instance = config, instance
        self._engine_directories, self._environment = engine_directories, dict(environment)
        self._warm_secret = secrets.token_bytes(_WARM_SECRET_BYTES)

    def use_config(self, config: RunnerConfig) -> None:
        self._config = config

    def for_grant(
        self,
        directory: Path,
        granted: Granted,
        temp_directory: Mapping[str, str],
        server_url: str,
        account: EngineAccount | None = None,
    ) -> ExecutorStart:
        start = self._build(directory, server_url, granted, temp_directory)
        if account is None:
            return start
        variables = engine_users.environment_of(account, start.environment, temp_directory["TMPDIR"])
        return msgspec.structs.replace(start, engine_account=account, environment=variables)

    def for_salvage(self, directory: Path, server_url: str) -> ExecutorStart:
        return self._build(directory, server_url, None, {})

    def _build(
        self, directory: Path, server_url: str, granted: Granted | None, temp_directory: Mapping[str, str]
    ) -> ExecutorStart:
        return ExecutorStart(
            server_url=server_url,
            directory=str(directory),
            cache_directory=str(self._instance.cache),
            workspaces=str(self._instance.workspaces),
            engine_directory=str(self._engine_directories.of(directory)),
            environment={**self._engine_environment(), **temp_directory},
            granted=granted,
            engine_paths=self._config.engine_paths,
            is_engine_installed=self._config.is_engine_installed,
            source_roots=self._config.source_roots,
            isolation=self._isolation(temp_directory),
            log_stream=self._config.log_stream,
            approved_hooks=self._approved_hooks(granted),
            discovery_host=self._config.discovery_host,
            choice=granted.spec.choice if granted else NO_CHOICE,
            slots=self._config.capacity,
            interrupt_seconds=departure.interrupt_seconds(self._config.stop_seconds),
            warm=self._warm(),
            is_salvage=granted is None,
        )

    def _warm(self) -> WarmSettings | None:
        """Return where executors keep what `init` made. The secret is new in every runner process, and never on a disk."""
        config = self._config
        if not config.warm_bytes:
            return None
        directory = str(self._instance.warm_workspaces)
        return WarmSettings(directory, self._warm_secret, config.warm_bytes, config.warm_seconds)

    def _engine_environment(self) -> dict[str, str]:
        """Return the runner's variables for engines, without those that a reload has named as secrets since the start."""
        hidden = self._config.secret_variables
        return {name: value for name, value in self._environment.items() if name not in hidden}

    def _approved_hooks(self, granted: Granted | None) -> ApprovedHooks | None:
        directory = self._config.approved_hooks_directory
        if directory is None or granted is None or not granted.spec.hooks:
            return None
        return read_approved_hooks(directory)

    def _isolation(self, temp_directory: Mapping[str, str]) -> IsolationSettings:
        """Return the operator's settings, with the attempt's temporary directory and without the runner's own files."""
        given = self._config.isolation
        return msgspec.structs.replace(
            given,
            write_paths=[*given.write_paths, *temp_directory.values()],
            private_paths=[*given.private_paths, self._config.working_directory, self._config.temp_directory],
            has_view=isolation.has_view(given),
        )


CONNECT_SECONDS = 20.0
"""An executor usually connects within this time. After it, the server is told of the executor, and says so if it has not connected."""


class StartedExecutors:
    """It does no I/O, and time is a parameter (monotonic seconds)."""

    def __init__(self) -> None:
        self._server_urls: dict[AttemptRef, str] = {}
        self._since: dict[AttemptRef, float] = {}

    def connect_to(self, ref: AttemptRef, server_url: str) -> None:
        """Note the server's address as the executor of an attempt is given it."""
        self._server_urls[ref] = server_url

    def forget(self, ref: AttemptRef) -> None:
        self._server_urls.pop(ref, None)

    def starts(self, waiting: Mapping[AttemptRef, str], now: float) -> list[WaitingStart]:
        """Return what the server is told. `waiting` has what the start of each attempt waits for; '' if there is a process."""
        self._since = {ref: self._since.get(ref, now) for ref, reason in waiting.items() if not reason}
        found = [WaitingStart(ref.job_id, ref.attempt, reason) for ref, reason in waiting.items() if reason]
        for ref, since in self._since.items():
            if now - since >= CONNECT_SECONDS and (url := self._server_urls.get(ref)):
                text = f"its executor runs, but has not connected: can it reach {url}?"
                found.append(WaitingStart(ref.job_id, ref.attempt, text, now - since))
        return found


FIRST_PAUSE_SECONDS = 5.0
MAX_JOB_PAUSE_SECONDS = 600.0
MAX_CHOICE_PAUSE_SECONDS = 60.0
_MAX_DOUBLINGS = 8
_MAX_REMEMBERED = 256


class StartPause(NamedTuple):
    job_seconds: float
    choice_seconds: float
    """For every job that asks the same of a dispatcher."""


class StartFailures:
    def __init__(self) -> None:
        self._jobs: OrderedDict[str, int] = OrderedDict()
        """How often each job failed in a row."""
        self._choices: OrderedDict[DispatcherChoice, set[str]] = OrderedDict()
        """The jobs that failed since the last one that asked for the same was started."""

    def failed(self, job_id: str, choice: DispatcherChoice) -> StartPause:
        """Note that a job could not be started."""
        failures = min(self._jobs.pop(job_id, 0) + 1, _MAX_DOUBLINGS)
        self._jobs[job_id] = failures
        jobs = self._choices.pop(choice, set())
        if len(jobs) < _MAX_DOUBLINGS:
            jobs.add(job_id)
        self._choices[choice] = jobs
        for known in (self._jobs, self._choices):
            while len(known) > _MAX_REMEMBERED:
                known.popitem(last=False)
        is_known_to_fail = failures > 1 and len(jobs) == 1  # it says nothing about other jobs
        return StartPause(
            _pause(failures, MAX_JOB_PAUSE_SECONDS),
            0.0 if is_known_to_fail else _pause(len(jobs), MAX_CHOICE_PAUSE_SECONDS),
        )

    def started(self, job_id: str, choice: DispatcherChoice) -> None:
        """Note that a process of a job existed."""
        self._jobs.pop(job_id, None)
        self._choices.pop(choice, None)


def _pause(failures: int, longest: float) -> float:
    return min(FIRST_PAUSE_SECONDS * 2 ** (failures - 1), longest)


MAX_HOOK_BYTES = 1 << 20
"""A larger file in the directory is no hook."""
_MAX_FILES = 10_000


def read_approved_hooks(directory: str) -> ApprovedHooks:
    """Return the approved hooks. Without a directory, or with one that cannot be read, there are none."""
    if not directory:
        return ApprovedHooks("")
    try:
        paths = sorted(Path(directory).iterdir())[:_MAX_FILES]
    except OSError:
        return ApprovedHooks(directory)
    found = {digest for path in paths for digest in _digests(path)}
    return ApprovedHooks(directory, sorted(found))


def _digests(path: Path) -> list[str]:
    """Return the digests of the hooks that a file approves. The last line break of a command, written as JSON, does not count."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_HOOK_BYTES:
                return []
            content = file.read().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    except OSError:
        return []
    texts = [content, content.rstrip(b"\n")] if content.startswith(b"[") else [content]
    return [hashlib.sha256(text).hexdigest() for text in texts]
