"""Builds rows in a database: an organization, modules, runners with a connected instance, and jobs."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, LiteralString, cast

import msgspec

from terracrew import ids
from terracrew.api.jobs import TERMINAL, Attempt, Job, JobStatus
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import heartbeats
from terracrew.server.connections import store as connections
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Columns, Database, Param, Tx
from terracrew.server.db.statements.table import assignments
from terracrew.server.history.points import History
from terracrew.server.jobs import attempt_store, decide, service, store
from terracrew.server.jobs.attempts import begin as permission
from terracrew.server.jobs.attempts import claim_store, claims
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.attempts.policy_checks import PolicyChecks
from terracrew.server.objects import open_objects
from terracrew.server.policies.opa import Opa
from terracrew.server.secrets.keyring import Keyring
from tests.builders.deliveries import DONE, RUNNING, delivery


async def insert(tx: Tx, table: str, **values: Param) -> None:
    """Insert a row; every other column has its default value."""
    columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    await tx.run(cast("LiteralString", f"INSERT INTO {table} ({columns}) VALUES ({places})"), **values)


async def _change(table: str, keys: tuple[str, ...], db: Database | Tx, *which: str, **columns: Any) -> None:
    values = {name: _param(value) for name, value in columns.items()}
    sql = f"UPDATE {table} SET {assignments(*cast('tuple[LiteralString, ...]', tuple(values)))}"
    named = " OR ".join(f"{key} = :which" for key in keys)

    async def work(tx: Tx) -> None:
        if not which:
            await tx.run(cast("LiteralString", sql), **values)
        for each in which:
            changed = await tx.run(cast("LiteralString", f"{sql} WHERE {named}"), **values, which=each)
            assert changed, f"there is no row in {table} that is named {each!r}"

    await (cast("Database", db).write(work) if hasattr(db, "write") else work(cast("Tx", db)))


def _param(value: Any) -> Param:
    """Convert a value to what its column has: whatever is not a scalar is JSON text."""
    if isinstance(value, datetime):
        return value.timestamp()
    plain = value if isinstance(value, bytes) else msgspec.to_builtins(value)
    return msgspec.json.encode(plain).decode() if isinstance(plain, dict | list | tuple) else cast("Param", plain)


# Each changes the rows that are named by any of these columns; all rows, if none is named.
change_organizations = partial(_change, "organizations", ("id", "name"))
change_groups = partial(_change, "groups", ("id", "path"))
change_modules = partial(_change, "modules", ("id", "path", "group_id"))
change_inputs = partial(_change, "inputs", ("id", "place_id"))
change_users = partial(_change, "users", ("id", "name"))
change_service_accounts = partial(_change, "service_accounts", ("id", "name"))
change_roles = partial(_change, "role_bindings", ("id", "principal_id"))
change_runners = partial(_change, "runners", ("id", "path"))
change_assignments = partial(_change, "assignments", ("runner_id",))
change_instances = partial(_change, "instances", ("id", "runner_id", "once_token_id"))
change_deployments = partial(_change, "cloud_deployments", ("runner_id",))
change_jobs = partial(_change, "jobs", ("id", "module_id", "organization_id"))
change_attempts = partial(_change, "attempts", ("job_id",))
change_plans = partial(_change, "plans", ("job_id",))
change_states = partial(_change, "states", ("id", "module_id"))


KEYS = Keyring([bytes(32)])
KILLED = decide.Report("killed")
SOURCE = '{"kind":"local","path":"/srv/modules/x"}'


class JobRows:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.organization = ids.new("org")
        self.root = ids.new("grp")
        self.claim = claims.claims(db, KEYS)
        self.take = ingest(db, KEYS, History(KEYS))
        self.last_number = 0

    @classmethod
    async def make(cls, db: Database) -> "JobRows":
        rows = cls(db)

        async def work(tx: Tx) -> None:
            organization, root = rows.organization, rows.root
            await insert(tx, "organizations", id=organization, name=organization, created_at=tx.now)
            names = {"name": "", "path": "", "depth": 0}
            await insert(tx, "groups", id=root, organization_id=organization, created_at=tx.now, **names)

        await db.write(work)
        return rows

    @classmethod
    async def of_organization(cls, db: Database, organization_id: str) -> "JobRows":
        """Build rows in an organization that exists."""
        root = "SELECT id FROM groups WHERE organization_id = :id AND path = ''"
        row = await db.read(lambda tx: tx.one(root, id=organization_id))
        assert row is not None
        rows = cls(db)
        rows.organization, rows.root = organization_id, row["id"]
        return rows

    async def insert(self, table: str, **values: Param) -> None:
        """Insert a row of this organization that is made now."""
        of = {"organization_id": self.organization}
        await self.db.write(lambda tx: insert(tx, table, created_at=tx.now, **(of | values)))

    async def group(self, path: str, parent_id: str | None = None) -> str:
        """A group, right below the organization unless the parent is given."""
        group_id, depth, name = ids.new("grp"), path.count("/") + 1 if parent_id else 1, path.rpartition("/")[2]
        place = {"name": name if parent_id else path, "path": path, "depth": depth}
        await self.insert("groups", id=group_id, parent_id=parent_id or self.root, **place)
        return group_id

    async def module(self, path: str = "", group_id: str | None = None) -> str:
        module_id = ids.new("mod")
        names = {"id": module_id, "name": path or module_id, "path": path or module_id}
        await self.insert("modules", group_id=group_id or self.root, engine="tofu", source=SOURCE, **names)
        return module_id

    async def runner(self, *, slots: int = 4, assigned: bool = True, knows_merge_results: bool = False) -> "Instance":
        runner_id, instance_id = ids.new("rnr"), ids.new("ins")

        names = {"id": runner_id, "name": runner_id, "path": runner_id}
        await self.insert("runners", group_id=self.root, type="self-hosted", max_jobs=100, **names)
        if assigned:
            await self.insert("assignments", runner_id=runner_id, place_id=self.root, kind="group", path="")
        own = {"id": instance_id, "capacity": slots, "knows_merge_results": knows_merge_results}
        await self.db.write(lambda tx: insert_instance(tx, runner_id, **own))
        return Instance(self, runner_id, instance_id)

    async def instance_of(self, runner_id: str, *, slots: int = 4, name: str = "") -> "Instance":
        """A connected instance of a runner that exists."""
        instance_id = ids.new("ins")
        own = {"id": instance_id, "capacity": slots} | ({"name": name} if name else {})
        await self.db.write(lambda tx: insert_instance(tx, runner_id, **own))
        return Instance(self, runner_id, instance_id)

    async def job(self, module_id: str, status: str = "QUEUED", kind: str = "PLAN") -> str:
        """A job that no runner has: it waits, or has ended."""
        job_id = ids.new("job")
        self.last_number += 1
        values = {"id": job_id, "module_id": module_id, "number": self.last_number, "type": kind, "status": status}

        async def work(tx: Tx) -> None:
            times = {"created_at": tx.now, "queued_at": tx.now}
            if JobStatus(status) in TERMINAL:
                times["finished_at"] = tx.now
            of = {"organization_id": self.organization, "created_by": "test", "source": SOURCE}
            await insert(tx, "jobs", **values, **of, **times)

        await self.db.write(work)
        return job_id

    async def many_jobs(self, module_ids: Sequence[str], count: int) -> None:
        """Queue many jobs with one statement, of the modules in turn; their numbers start at 1000."""
        sql = """INSERT INTO jobs (id, organization_id, module_id, number, type, status, source, created_by, created_at, queued_at)
            SELECT id, own, module_id, number, 'PLAN', 'QUEUED', '{"kind":"local","path":"/x"}', 'test', 1, 1
            FROM batch WHERE true"""
        columns: Columns = {"id": "text", "own": "text", "module_id": "text", "number": "bigint"}
        of, modules = self.organization, len(module_ids)
        rows = [(f"job_{n:032x}", of, module_ids[n % modules], n + 1000) for n in range(count)]
        await self.db.write(lambda tx: tx.each(sql, columns, rows))

    async def administrators(self, *user_ids: str) -> None:
        """Users who may do everything. What an administrator approves counts only while there is a row of them."""
        sql = """INSERT INTO users (id, organization_id, name, is_system_admin, created_at)
            VALUES (:id, :own, :id, true, 0) ON CONFLICT (id) DO NOTHING"""
        for user_id in user_ids:
            await self.run(sql, id=user_id, own=self.organization)

    async def gone(self, ref: AttemptRef, report: decide.Report = KILLED) -> None:
        """Let the runner of an attempt report that its executor has gone."""
        await service.settle(self.db, ref, lambda job, attempt, now: decide.gone(job, attempt, report, now))

    async def run(self, sql: Any, **params: Any) -> None:
        """Run one statement, for what no builder makes."""
        await self.db.write(lambda tx: tx.run(sql, **params))

    async def load(self, job_id: str) -> Job:
        return await self.db.read(lambda tx: store.get(tx, job_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        return await self.db.read(lambda tx: attempt_store.attempts(tx, job_id))


class Instance:
    def __init__(self, rows: JobRows, runner_id: str, instance_id: str) -> None:
        self.rows = rows
        self.runner_id = runner_id
        self.id = instance_id

    async def claim(self, job_id: str, attempt: int = 1, epoch: int = 1) -> claims.ClaimWon | None:
        claimant = claim_store.Claimant(job_id, attempt, self.runner_id, self.id, epoch)
        return await self.rows.claim(claim_store.ClaimRequest(claimant, claims.make_credentials()))

    async def has(self, job_id: str, attempt: int = 1) -> messages.Granted:
        won = await self.claim(job_id, attempt)
        assert won is not None
        return won.granted

    async def claimed(self, job_id: str, attempt: int = 1) -> AttemptRef:
        """Take a job, whose executor has said nothing yet."""
        await self.has(job_id, attempt)
        return AttemptRef(job_id, attempt)

    async def start(self, job_id: str, attempt: int = 1) -> AttemptRef:
        """Take a job, whose executor says that it runs."""
        ref = await self.claimed(job_id, attempt)
        await self.rows.take(delivery(ref, 1, RUNNING))
        return ref

    async def finish(self, job_id: str) -> None:
        """Take a job, and run it to its end."""
        await self.rows.take(delivery(await self.start(job_id), 2, DONE))

    async def heartbeat(self, *attempts: AttemptRef) -> None:
        """Record contact with this instance now, and with these attempts."""

        async def work(tx: Tx) -> None:
            await connections.note_instance_contacts(tx, [(self.id, 1, tx.now)])
            await heartbeats.named(tx, [(self.id, ref) for ref in attempts])

        await self.rows.db.write(work)

    async def disconnect(self) -> None:
        await self.rows.db.write(lambda tx: connections.disconnect(tx, self.runner_id, self.id, 1))

    async def share(self) -> None:
        """Make its runner a shared one, so that it is no nearer to any module than other shared runners."""
        await self.rows.run("DELETE FROM assignments WHERE runner_id = :id", id=self.runner_id)
        shared = "UPDATE runners SET organization_id = NULL, group_id = NULL WHERE id = :id"
        await self.rows.run(shared, id=self.runner_id)

    def ref(self, job_id: str, attempt: int = 1) -> AttemptRef:
        return AttemptRef(job_id, attempt)


async def insert_instance(tx: Tx, runner_id: str, **values: Param) -> str:
    """Insert an instance of a runner, connected and in contact now unless the values say otherwise."""
    is_connected = bool(values.get("is_connected", True))
    row: dict[str, Param] = {
        "id": ids.new("ins"),
        "name": "one",
        "key_sha256": "",
        "epoch": 1,
        "version": "0",
        "capacity": 4,
        "engines": '{"tofu":"1.12.6"}',
        "is_connected": is_connected,
        "is_draining": False,
        "connected_at": tx.now,
        "disconnected_at": None if is_connected else tx.now,
        "heard_at": tx.now,
    } | values
    await insert(tx, "instances", runner_id=runner_id, **row)
    return str(row["id"])


def policy_checks(db: Database) -> PolicyChecks:
    """Return what lets policies look at plans, whose JSON is in its row."""
    return PolicyChecks(db, open_objects("memory:///"), KEYS, Opa())


async def begin(
    db: Database,
    ref: AttemptRef,
    state_version: int,
    plan_attempt: int | None = None,
    registry: Registry | None = None,
    plan_sha256: str = "",
) -> messages.Begun | messages.BeginRefused:
    """Ask for permission to apply, where nobody is connected unless a registry says so."""
    asked = messages.Begin(state_version, plan_attempt, plan_sha256)
    return await permission.permit(db, registry or Registry(), History(KEYS), policy_checks(db), ref, asked)


async def begin_code(
    db: Database, ref: AttemptRef, state_version: int, plan_attempt: int | None = None, registry: Registry | None = None
) -> str:
    """Ask for permission to apply; return `begun`, or the code of the refusal."""
    answer = await begin(db, ref, state_version, plan_attempt, registry)
    return answer.code if isinstance(answer, messages.BeginRefused) else "begun"
