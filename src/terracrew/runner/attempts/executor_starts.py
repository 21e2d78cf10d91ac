"""Builds what an executor is started with, for one attempt."""

import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import ApprovedHooks
from terracrew.protocol.start import EngineAccount, ExecutorStart, IsolationSettings, WarmSettings
from terracrew.runner import departure, engine_users, isolation
from terracrew.runner.attempts import approved_hooks
from terracrew.runner.attempts.engine_directories import EngineDirectories
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
        return approved_hooks.read(directory)

    def _isolation(self, temp_directory: Mapping[str, str]) -> IsolationSettings:
        """Return the operator's settings, with the attempt's temporary directory and without the runner's own files."""
        given = self._config.isolation
        return msgspec.structs.replace(
            given,
            write_paths=[*given.write_paths, *temp_directory.values()],
            private_paths=[*given.private_paths, self._config.working_directory, self._config.temp_directory],
            has_view=isolation.has_view(given),
        )
