"""What benchmarks share: temporary folders, both databases, and servers whose database is filled before they start."""

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.server.db import open_database
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import person
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.secrets import credentials
from tests.bench import postgres
from tests.bench.fleet import Muster, Order, Report
from tests.bench.load import Figures, Task
from tests.bench.simulated_runners import Access
from tests.builders.job_rows import change_organizations
from tests.e2e.system import Process, System, running
from tests.machine.postgres_server import PostgresServer

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
        """Return the one PostgreSQL of the whole run, which is started at the first call."""
        if self._postgres is None:
            self._postgres = self._stack.enter_context(postgres.running(self.directory / "postgres"))
        return self._postgres

    def database(self, kind: str) -> contextlib.AbstractContextManager[str]:
        """Return the address of an empty database, or nothing for SQLite."""
        return self.postgres.unmigrated_database() if kind == "postgres" else contextlib.nullcontext("")


class Filled(msgspec.Struct):
    """A running server with records for a crew."""

    system: System
    process: Process
    token: str
    members: list[Access]
    modules: list[str]
    database_url: str = ""
    """Empty for SQLite."""


@contextlib.contextmanager
def filled(
    env: Env, kind: str, runners: int, modules: int, queued: int = 0, environment: dict[str, str] | None = None
) -> Generator[Filled]:
    """Start a filled server; `queued` jobs wait for an engine or a runner that does not exist."""
    with env.database(kind) as url, running(env.folder(kind), url) as system:
        system.data.mkdir()
        system.env.update(environment or {})
        token, members, paths = asyncio.run(fill(url or str(system.data / "terracrew.db"), runners, modules, queued))
        process = system.start_server(runner=False)
        # A server writes this file only where it makes the administrator. At its start it would revoke a token without an end.
        (system.data / "admin.token").write_text(token)
        yield Filled(system, process, token, members, paths, url)


def put_load(task: Task) -> Figures:
    """Run a load generator in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.load"],
        input=msgspec.json.encode(task),
        capture_output=True,
        check=False,
        timeout=900,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode()[-3000:])
    return msgspec.json.decode(done.stdout, type=Figures)


class Fleet:
    """Controls a fleet that runs in a separate process."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process

    def begin(self, order: Order) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(order) + b"\n")
        self._process.stdin.flush()

    def report(self, within: float = 180) -> Report:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], within)[0]:
            raise RuntimeError(f"the fleet did not do within {within:.0f} s what it was told to")
        return msgspec.json.decode(self._process.stdout.readline(), type=Report)

    def order(self, order: Order) -> Report:
        self.begin(order)
        return self.report()


@contextlib.contextmanager
def fleet(there: Filled) -> Generator[Fleet]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.fleet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(Muster(there.system.url, there.members)) + b"\n")
        yield Fleet(process)
    finally:
        process.kill()
        process.wait(20)
        process.stdin.close()
        process.stdout.close()


async def fill(url: str, runners: int, modules: int, queued: int = 0) -> tuple[str, list[Access], list[str]]:
    db = await open_database(url)
    try:
        await first_start(db)
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        _, token = await service.create_token(db, person(admin, None), "bench", None)
        organization = admin.organization_id
        assert organization is not None
        members = await db.write(lambda tx: insert_runners(tx, organization, runners))
        paths = await db.write(lambda tx: _insert_modules(tx, organization, modules))
        await db.write(lambda tx: _insert_queue(tx, organization, queued))
    finally:
        await db.close()
    return token.text, members, paths


async def insert_runners(tx: Tx, organization_id: str, count: int) -> list[Access]:
    """Insert runners, each with a worker token and an assignment to the whole organization."""
    root = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    assert root is not None
    secrets = [(ids.new("rnr"), credentials.new("tcw")) for _ in range(count)]
    await tx.each(
        """INSERT INTO runners (id, organization_id, group_id, name, path, type, worker_token_sha256, max_jobs, created_at)
        SELECT id, organization_id, group_id, name, name, 'self-hosted', sha256, 1000, now FROM batch WHERE true""",
        {
            "id": "text",
            "organization_id": "text",
            "group_id": "text",
            "name": "text",
            "sha256": "text",
            "now": "double precision",
        },
        [
            (runner_id, organization_id, root["id"], f"sim-{index}", secret.sha256, tx.now)
            for index, (runner_id, secret) in enumerate(secrets)
        ],
    )
    await tx.each(
        """INSERT INTO assignments (runner_id, place_id, kind, organization_id, path, created_at)
        SELECT id, place_id, 'group', organization_id, '', now FROM batch WHERE true""",
        {"id": "text", "place_id": "text", "organization_id": "text", "now": "double precision"},
        [(runner_id, root["id"], organization_id, tx.now) for runner_id, _ in secrets],
    )
    return [Access(runner_id, f"{organization_id}:{runner_id}", secret.text) for runner_id, secret in secrets]


async def _insert_modules(tx: Tx, organization_id: str, count: int) -> list[str]:
    """Insert modules in several groups, so that the queue has to take turns between groups."""
    root = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    assert root is not None
    groups = [(ids.new("grp"), f"team-{index}") for index in range(GROUPS)]
    for group_id, name in groups:
        await tx.run(
            """INSERT INTO groups (id, organization_id, parent_id, name, path, depth, created_at)
            VALUES (:id, :organization_id, :parent_id, :name, :name, 1, :now)""",
            id=group_id,
            organization_id=organization_id,
            parent_id=root["id"],
            name=name,
            now=tx.now,
        )
    paths: list[str] = []
    for index in range(count):
        group_id, group = groups[index % GROUPS]
        paths.append(f"{group}/module-{index}")
        await tx.run(
            """INSERT INTO modules (id, organization_id, group_id, name, path, engine, source, created_at)
            VALUES (:id, :organization_id, :group_id, :name, :path, 'tofu', :source, :now)""",
            id=ids.new("mod"),
            organization_id=organization_id,
            group_id=group_id,
            name=f"module-{index}",
            path=paths[-1],
            source=_SOURCE,
            now=tx.now,
        )
    return paths


async def _insert_queue(tx: Tx, organization_id: str, count: int) -> None:
    """Insert queued jobs for an engine or a runner that does not exist: half of them on one module, the others ten to a module."""
    group = await tx.one("SELECT id FROM groups WHERE organization_id = :id AND path = ''", id=organization_id)
    assert group is not None
    absent, module_id = ids.new("rnr"), ""
    for number in range(1, count + 1):
        if number == 1 or (number > count / 2 and number % 10 == 1):
            module_id, name = ids.new("mod"), f"waiting-{number}"
            is_pinned = number % 20 == 1
            await tx.run(
                """INSERT INTO modules (id, organization_id, group_id, name, path, engine, source, runner_id, created_at)
                VALUES (:id, :organization_id, :group_id, :name, :name, :engine, :source, :runner_id, :now)""",
                id=module_id,
                organization_id=organization_id,
                group_id=group["id"],
                name=name,
                source=_SOURCE,
                now=tx.now,
                engine="tofu" if is_pinned else "pulumi",
                runner_id=absent if is_pinned else None,
            )
        await tx.run(
            """INSERT INTO jobs (id, organization_id, module_id, number, type, status, source, created_by, created_at, queued_at)
            VALUES (:id, :organization_id, :module_id, :number, 'PLAN', 'QUEUED', :source, 'bench', :now, :now)""",
            id=ids.new("job"),
            organization_id=organization_id,
            module_id=module_id,
            number=number,
            source=_SOURCE,
            now=tx.now,
        )
    await change_organizations(tx, organization_id, next_job_number=count + 1)
