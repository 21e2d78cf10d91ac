"""The built-in runner: it runs in the server's process. All servers share one runner, and each is an instance of it."""

import hashlib
import os
import socket
from functools import partial
from pathlib import Path

from terracrew.protocol.start import IsolationSettings
from terracrew.runner import main as runner_process
from terracrew.runner.config import RunnerConfig
from terracrew.runner.stop import Stop
from terracrew.server.context import Server
from terracrew.server.db import stored_values
from terracrew.server.db.seam import Tx
from terracrew.server.process import diagnostics
from terracrew.server.runners import service as runners
from terracrew.server.runners.model import Runner
from terracrew.server.secrets import credentials
from terracrew.server.secrets.credentials import Secret
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.supervise import supervise

NAME = "built-in"
SLOTS = max(4, os.cpu_count() or 4)
_TOKEN = "built_in_token"  # noqa: S105 - the name of a setting


async def run(server: Server, stop: Stop) -> None:
    """Run the built-in runner until `stop`; its executors continue."""
    await supervise("runner", partial(_run, server, stop), until=stop.exit, ready=server.db.ready)


async def _run(server: Server, stop: Stop) -> None:
    """Run the runner once. It speaks the hub's protocol over loopback, like every other runner."""
    record, token = await server.db.write(lambda tx: _record(tx, server.keys))
    directory = server.settings.directory / "runner"
    config = RunnerConfig(
        server_url=f"http://127.0.0.1:{server.settings.port}",
        runner_id=record.id,
        instance=instance_name(server.db.kind, server.settings.directory),
        client_id=record.id,
        client_secret=token.text,
        working_directory=str(directory),
        temp_directory=str(directory / ".temp"),
        capacity=SLOTS,
        source_roots=[str(root.expanduser()) for root in server.settings.local_roots],
        isolation=IsolationSettings(
            server.settings.runner_isolation,
            [str(path.expanduser()) for path in server.settings.runner_read_paths],
            [str(path.expanduser()) for path in server.settings.runner_write_paths],
            [str(path.expanduser().absolute()) for path in server.settings.private_paths],
        ),
        is_built_in=True,
    )
    await runner_process.run(config, stop, set_levels=diagnostics.configure_builtin_runner)


def instance_name(database: str, directory: Path) -> str:
    """Return the name of this server's instance. With PostgreSQL there may be several servers, so the name is made from the host
    and the data directory, and stays the same after a restart."""
    if database == "sqlite":
        return "server"
    host = socket.gethostname()
    return f"{host[:80]}-{hashlib.sha256(f'{host}:{directory.resolve()}'.encode()).hexdigest()[:6]}"


async def _record(tx: Tx, keys: Keyring) -> tuple[Runner, Secret]:
    """Return the record and its worker token. All servers use the same token: a new one would end the others' connections."""
    text = credentials.new("tcw").text
    stored = await stored_values.get_or_put(tx, _TOKEN, keys.encrypt(text.encode(), _TOKEN))
    text = keys.decrypt(stored, _TOKEN).decode()
    token = Secret(text, credentials.digest(text))
    record, _ = await runners.ensure_shared(tx, NAME, SLOTS, token=token, allow_multiple_instances=True)
    return record, token
