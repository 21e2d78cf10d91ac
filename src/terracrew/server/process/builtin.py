"""Built-in runners: they run in the server's process. All servers share their records, and each server is an instance of each."""

import asyncio
import base64
import hashlib
import hmac
import os
import socket
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from terracrew.api.runners import Runner
from terracrew.errors import Removed
from terracrew.logging import get_logger
from terracrew.protocol.messages import Installation
from terracrew.protocol.start import IsolationSettings
from terracrew.runner import engine_users
from terracrew.runner import main as runner_process
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Stop
from terracrew.runner.reload import ConfigUpdates
from terracrew.server.context import Server
from terracrew.server.db import stored_values
from terracrew.server.db.seam import Tx
from terracrew.server.process import diagnostics
from terracrew.server.process.reload import SettingsReload
from terracrew.server.runners.shared import declaring
from terracrew.server.secrets import credentials
from terracrew.server.secrets.credentials import Secret
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import supervise
from terracrew.settings.server import ServerSettings
from terracrew.settings.shared_runners import BuiltInRunner

SLOTS = max(4, os.cpu_count() or 4)
RECORD_WAIT_SECONDS = 30.0
"""How often a built-in runner without a record looks for it again; a wake-up tells it sooner."""
_TOKEN = "built_in_token"  # noqa: S105 - the name of a setting
log = get_logger("terracrew.runners")


class LocalRunner(NamedTuple):
    """A built-in runner that this server runs."""

    name: str
    max_jobs: int
    settings: BuiltInRunner = BuiltInRunner()
    is_left_behind: bool = False
    """Whether no declaration has it any more: it only looks after its last attempts."""


async def run(server: Server, runners: list[LocalRunner], stop: Stop, reload: SettingsReload) -> None:
    """Run the built-in runners until `stop`; their executors continue. A reload may hide further files and variables from their jobs."""
    updates = {each.name: ConfigUpdates() for each in runners}
    configs: dict[str, RunnerConfig] = {}

    def hide(settings: ServerSettings) -> None:
        for name, config in configs.items():
            private = msgspec.structs.replace(config.isolation, private_paths=_private(settings))
            variables = list(settings.external_facts.secret_variables)
            configs[name] = msgspec.structs.replace(config, isolation=private, secret_variables=variables)
            updates[name].publish(configs[name])

    reload.on_hidden = hide
    async with asyncio.TaskGroup() as tasks:
        for each in runners:
            loop = partial(_run, server, each, stop, reload, updates[each.name], configs)
            tasks.create_task(supervise(f"runner {each.name}", loop, until=stop.exit, ready=server.db.ready))


async def _run(
    server: Server,
    local: LocalRunner,
    stop: Stop,
    reload: SettingsReload,
    updates: ConfigUpdates,
    configs: dict[str, RunnerConfig],
) -> None:
    """Run a runner until its record is gone. It speaks the hub's protocol over loopback, like every other runner."""
    name = local.name
    found = await _record(server, local, stop)
    if found is None:
        return
    config = configs[name] = _config(reload.settings, local, server.db.kind, *found)
    try:
        await runner_process.run(config, stop, set_levels=diagnostics.configure_builtin_runner, updates=updates)
    except Removed:
        log.info("the built-in runner has finished and is removed", runner=name)


async def _record(server: Server, local: LocalRunner, stop: Stop) -> tuple[Runner, Secret] | None:
    """Return the record and its token, as soon as there is one. Returns None when the server stops."""
    name = local.name
    stopping = asyncio.create_task(stop.exit.wait())
    try:
        with server.db.listen("runners") as wakeups:
            while not stop.exit.is_set():
                found = await server.db.write(lambda tx: _read(tx, server.keys, name))
                if found is not None:
                    return found
                waiting: set[asyncio.Task[Any]] = {stopping}
                if not local.is_left_behind:
                    waiting.add(asyncio.create_task(wakeups.get(timeout=RECORD_WAIT_SECONDS)))
                done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in (pending | done) - {stopping}:
                    each.cancel()
        return None
    finally:
        stopping.cancel()


async def _read(tx: Tx, keys: Keyring, name: str) -> tuple[Runner, Secret] | None:
    found = await declaring.find(tx, name)
    return None if found is None else (found, token(await secret(tx, keys), name))


def _config(settings: ServerSettings, local: LocalRunner, database: str, record: Runner, token: Secret) -> RunnerConfig:
    directory, own = directory_of(settings.directory, local.name), local.settings
    return RunnerConfig(
        server_url=f"http://127.0.0.1:{settings.port}",
        runner_id=record.id,
        instance=instance_name(database, settings.directory),
        client_id=record.id,
        client_secret=token.text,
        working_directory=str(directory),
        temp_directory=str(directory / ".temp"),
        capacity=local.max_jobs,
        engine_paths=own.additional_binary_paths,
        source_roots=[str(root) for root in settings.local_roots],
        isolation=IsolationSettings(
            own.isolation or settings.runner_isolation,
            settings.runner_read_paths + own.read_paths,
            settings.runner_write_paths + own.write_paths,
            _private(settings),
        ),
        claims_engine_users=settings.runner_user == engine_users.AUTO,
        discovery_host=urlsplit(settings.public_url).netloc.rpartition("@")[2],
        is_built_in=True,
        installation=Installation("server"),
        environment_patterns=settings.runner_environment or [],
        secret_variables=list(settings.external_facts.secret_variables),
    )


def _private(settings: ServerSettings) -> list[str]:
    return [str(path.expanduser().absolute()) for path in settings.private_paths]


def directory_of(data_directory: Path, name: str) -> Path:
    """Return the working directory of a built-in runner."""
    return data_directory / "runner" if name == declaring.BUILT_IN_NAME else data_directory / "runners" / name


def instance_name(database: str, directory: Path) -> str:
    """Return the name of this server's instance. With PostgreSQL there may be several servers, so the name is made from the host
    and the data directory, and stays the same after a restart."""
    if database == "sqlite":
        return "server"
    host = socket.gethostname()
    return f"{host[:80]}-{hashlib.sha256(f'{host}:{directory.resolve()}'.encode()).hexdigest()[:6]}"


async def secret(tx: Tx, keys: Keyring) -> str:
    """Return the secret that the tokens of built-in runners are made from. All servers use the same: a new one would end the
    others' connections."""
    text = credentials.new("tcw").text
    stored = await stored_values.get_or_put(tx, _TOKEN, keys.encrypt(text.encode(), _TOKEN))
    return keys.decrypt(stored, _TOKEN).decode()


def token(secret: str, name: str) -> Secret:
    """Return the worker token of a built-in runner. That of the first one is the secret itself."""
    text = secret
    if name != declaring.BUILT_IN_NAME:
        mac = hmac.digest(secret.encode(), name.encode(), "sha256")
        text = f"tcw_{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    return Secret(text, credentials.digest(text))
