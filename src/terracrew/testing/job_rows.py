"""Builds rows in a database: an organization, modules, runners with a connected instance, and jobs."""

from typing import Any

from terracrew import ids
from terracrew.protocol import messages
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections import heartbeats
from terracrew.server.connections import store as connections
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts import begin as permission
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.model import TERMINAL, Attempt, Job, JobStatus
from terracrew.server.secrets.keyring import Keyring
from terracrew.testing.deliveries import DONE, RUNNING, delivery

KEYS = Keyring([bytes(32)])


class JobRows:
    def __init__(self, db: Database) -> None:
        self.db = db
        self.organization = ids.new("org")
        self.root = ids.new("grp")
        self.claim = claims.claims(db, KEYS)
        self.take = ingest(db, KEYS)
        self._numbers = 0

    @classmethod
    async def make(cls, db: Database) -> "JobRows":
        world = cls(db)

        async def work(tx: Tx) -> None:
            await tx.run(
                "INSERT INTO organizations (id, name, created_at) VALUES (:id, :id, :now)",
                id=world.organization,
                now=tx.now,
            )
            await tx.run(
                """INSERT INTO groups (id, organization_id, name, path, depth, created_at)
                VALUES (:id, :organization, '', '', 0, :now)""",
                id=world.root,
                organization=world.organization,
                now=tx.now,
            )

        await db.write(work)
        return world

    @classmethod
    async def of_organization(cls, db: Database, organization_id: str) -> "JobRows":
        """Build rows in an organization that exists."""
        root = "SELECT id FROM groups WHERE organization_id = :id AND path = ''"
        row = await db.read(lambda tx: tx.one(root, id=organization_id))
        assert row is not None
        rows = cls(db)
        rows.organization, rows.root = organization_id, row["id"]
        return rows

    async def group(self, path: str) -> str:
        """A group right below the organization."""
        group_id = ids.new("grp")
        await self.db.write(
            lambda tx: tx.run(
                """INSERT INTO groups (id, organization_id, parent_id, name, path, depth, created_at)
                VALUES (:id, :organization, :root, :path, :path, 1, :now)""",
                id=group_id,
                organization=self.organization,
                root=self.root,
                path=path,
                now=tx.now,
            )
        )
        return group_id

    async def module(self, path: str = "", group_id: str | None = None) -> str:
        module_id = ids.new("mod")

        async def work(tx: Tx) -> None:
            await tx.run(
                """INSERT INTO modules (id, organization_id, group_id, name, path, engine, source, created_at)
                VALUES (:id, :organization, :group_id, :path, :path, 'tofu', :source, :now)""",
                id=module_id,
                organization=self.organization,
                group_id=group_id or self.root,
                path=path or module_id,
                source='{"kind":"local","path":"/srv/modules/x"}',
                now=tx.now,
            )

        await self.db.write(work)
        return module_id

    async def runner(self, *, slots: int = 4, assigned: bool = True) -> "Instance":
        runner_id, instance_id = ids.new("rnr"), ids.new("ins")

        async def work(tx: Tx) -> None:
            await tx.run(
                """INSERT INTO runners (id, organization_id, group_id, name, path, type, max_jobs, created_at)
                VALUES (:id, :organization, :group_id, :id, :id, 'self-hosted', 100, :now)""",
                id=runner_id,
                organization=self.organization,
                group_id=self.root,
                now=tx.now,
            )
            if assigned:
                await tx.run(
                    """INSERT INTO assignments (runner_id, place_id, kind, organization_id, path, created_at)
                    VALUES (:runner_id, :place, 'group', :organization, '', :now)""",
                    runner_id=runner_id,
                    place=self.root,
                    organization=self.organization,
                    now=tx.now,
                )
            await tx.run(
                """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, version, capacity, is_connected, is_draining,
                    connected_at, heard_at) VALUES (:id, :runner_id, 'one', '', 1, '0', :slots, true, false, :now, :now)""",
                id=instance_id,
                runner_id=runner_id,
                slots=slots,
                now=tx.now,
            )

        await self.db.write(work)
        return Instance(self, runner_id, instance_id)

    async def job(self, module_id: str, status: str = "QUEUED", kind: str = "PLAN") -> str:
        """A job that no runner has: it waits, or has ended."""
        job_id = ids.new("job")
        self._numbers += 1

        async def work(tx: Tx) -> None:
            await tx.run(
                """INSERT INTO jobs (id, organization_id, module_id, number, type, status, source, created_by, created_at, queued_at,
                    finished_at)
                VALUES (:id, :organization, :module_id, :number, :type, :status, :source, 'test', :now, :now, :finished_at)""",
                id=job_id,
                organization=self.organization,
                module_id=module_id,
                number=self._numbers,
                type=kind,
                status=status,
                source='{"kind":"local","path":"/srv/modules/x"}',
                now=tx.now,
                finished_at=tx.now if JobStatus(status) in TERMINAL else None,
            )

        await self.db.write(work)
        return job_id

    async def run(self, sql: Any, **params: Any) -> None:
        """Run one statement, for what no builder makes."""
        await self.db.write(lambda tx: tx.run(sql, **params))

    async def load(self, job_id: str) -> Job:
        return await self.db.read(lambda tx: store.get(tx, job_id))

    async def attempts(self, job_id: str) -> list[Attempt]:
        return await self.db.read(lambda tx: store.attempts(tx, job_id))


class Instance:
    def __init__(self, world: JobRows, runner_id: str, instance_id: str) -> None:
        self.world = world
        self.runner_id = runner_id
        self.id = instance_id

    async def claim(self, job_id: str, attempt: int = 1, epoch: int = 1) -> claims.ClaimWon | None:
        claimant = claims.Claimant(job_id, attempt, self.runner_id, self.id, epoch)
        return await self.world.claim(claims.ClaimRequest(claimant, claims.make_credentials()))

    async def has(self, job_id: str, attempt: int = 1) -> messages.Granted:
        won = await self.claim(job_id, attempt)
        assert won is not None
        return won.granted

    async def start(self, job_id: str, attempt: int = 1) -> AttemptRef:
        """Take a job, whose executor says that it runs."""
        await self.has(job_id, attempt)
        ref = AttemptRef(job_id, attempt)
        await self.world.take(delivery(ref, 1, RUNNING))
        return ref

    async def finish(self, job_id: str) -> None:
        """Take a job, and run it to its end."""
        await self.world.take(delivery(await self.start(job_id), 2, DONE))

    async def heartbeat(self, *attempts: AttemptRef) -> None:
        """Be heard now, and name these attempts."""

        async def work(tx: Tx) -> None:
            await connections.hear_instances(tx, [(self.id, 1, tx.now)])
            await heartbeats.named(tx, self.id, attempts)

        await self.world.db.write(work)

    async def disconnect(self) -> None:
        await self.world.db.write(lambda tx: connections.disconnect(tx, self.runner_id, self.id, 1))

    def ref(self, job_id: str, attempt: int = 1) -> AttemptRef:
        return AttemptRef(job_id, attempt)


async def begin(
    db: Database, ref: AttemptRef, state_version: int, plan_attempt: int | None = None, registry: Registry | None = None
) -> messages.Begun | messages.BeginRefused:
    """Ask for permission to apply, where nobody is connected unless a registry says so."""
    return await permission.permit(db, registry or Registry(), ref, messages.Begin(state_version, plan_attempt))
