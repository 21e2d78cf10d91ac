"""What benchmarks stand on: temporary folders, the two databases, and servers whose database was filled before they start."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.server.db import open_database
from terracrew.server.db.seam import Tx
from terracrew.server.identity import credentials, service
from terracrew.server.identity import store as people
from terracrew.server.identity.sessions import person
from tests.bench import postgres
from tests.bench.crew import Access
from tests.bench.load import Figures, Task
from tests.e2e.system import Process, System, running
from tests.postgres_server import PostgresServer

GROUPS = 10
_SOURCE = json.dumps({"kind": "local", "path": "/nowhere", "subdirectory": ""})


class Env:
    """One run of benchmarks."""

    def __init__(self, directory: Path, stack: contextlib.ExitStack) -> None:
        self.directory = directory
        self._stack = stack
        self._postgres: PostgresServer | None = None

    @classmethod
    @contextlib.contextmanager
    def open(cls) -> Generator["Env"]:
        with tempfile.TemporaryDirectory(prefix="terracrew-bench-") as folder, contextlib.ExitStack() as stack:
            os.chmod(folder, 0o711)  # PostgreSQL runs as somebody else
            yield cls(Path(folder), stack)

    def say(self, text: str) -> None:
        print(f"    {text}", file=sys.stderr, flush=True)

    def folder(self, name: str) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))

    @property
    def postgres(self) -> PostgresServer:
        """One server for the whole run; it is started when it is first wanted."""
        if self._postgres is None:
            self._postgres = self._stack.enter_context(postgres.running(self.directory / "postgres"))
        return self._postgres

    def database(self, kind: str) -> contextlib.AbstractContextManager[str]:
        """The address of an empty database; nothing for the embedded one."""
        return self.postgres.unmigrated_database() if kind == "postgres" else contextlib.nullcontext("")


class Filled(msgspec.Struct, frozen=True):
    """A running server with records for a crew."""

    system: System
    process: Process
    token: str
    members: list[Access]
    modules: list[str]


@contextlib.contextmanager
def filled(env: Env, kind: str, runners: int, modules: int) -> Generator[Filled]:
    with env.database(kind) as url, running(env.folder(kind), url) as system:
        system.data.mkdir()
        token, members, paths = asyncio.run(_fill(url or str(system.data / "terracrew.db"), runners, modules))
        (system.data / "admin.token").write_text(token)
        yield Filled(system, system.start_server(runner=False), token, members, paths)


def put_load(task: Task) -> Figures:
    """Run a load generator in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.load"], input=msgspec.json.encode(task), capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-3000:])
    return msgspec.json.decode(done.stdout, type=Figures)


async def _fill(url: str, runners: int, modules: int) -> tuple[str, list[Access], list[str]]:
    db = await open_database(url)
    try:
        await service.first_start(db)
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        _, token = await service.create_token(db, person(admin, None), "bench", None)
        organization = admin.organization_id
        assert organization is not None
        members = await db.write(lambda tx: _insert_runners(tx, organization, runners))
        paths = await db.write(lambda tx: _insert_modules(tx, organization, modules))
    finally:
        await db.close()
    return token.text, members, paths


async def _insert_runners(tx: Tx, organization_id: str, count: int) -> list[Access]:
    """Each with a worker token, assigned to the whole organization."""
    root = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    assert root is not None
    members: list[Access] = []
    for index in range(count):
        runner_id, secret = ids.new("rnr"), credentials.new("tcw")
        await tx.run(
            """INSERT INTO runners (id, organization_id, group_id, name, path, type, worker_token_sha256, max_jobs, created_at)
            VALUES (:id, :organization_id, :group_id, :name, :name, 'self-hosted', :sha256, 1000, :now)""",
            id=runner_id, organization_id=organization_id, group_id=root["id"], name=f"sim-{index}", sha256=secret.sha256, now=tx.now,
        )  # fmt: skip
        await tx.run(
            """INSERT INTO assignments (runner_id, place_id, kind, organization_id, path, created_at)
            VALUES (:id, :place_id, 'group', :organization_id, '', :now)""",
            id=runner_id, place_id=root["id"], organization_id=organization_id, now=tx.now,
        )  # fmt: skip
        members.append(Access(runner_id, f"{organization_id}:{runner_id}", secret.text))
    return members


async def _insert_modules(tx: Tx, organization_id: str, count: int) -> list[str]:
    """Spread over a few groups, so that the queue has turns to take."""
    root = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    assert root is not None
    groups = [(ids.new("grp"), f"team-{index}") for index in range(GROUPS)]
    for group_id, name in groups:
        await tx.run(
            """INSERT INTO groups (id, organization_id, parent_id, name, path, depth, created_at)
            VALUES (:id, :organization_id, :parent_id, :name, :name, 1, :now)""",
            id=group_id, organization_id=organization_id, parent_id=root["id"], name=name, now=tx.now,
        )  # fmt: skip
    paths: list[str] = []
    for index in range(count):
        group_id, group = groups[index % GROUPS]
        paths.append(f"{group}/module-{index}")
        await tx.run(
            """INSERT INTO modules (id, organization_id, group_id, name, path, engine, source, created_at)
            VALUES (:id, :organization_id, :group_id, :name, :path, 'tofu', :source, :now)""",
            id=ids.new("mod"), organization_id=organization_id, group_id=group_id, name=f"module-{index}", path=paths[-1],
            source=_SOURCE, now=tx.now,
        )  # fmt: skip
    return paths
