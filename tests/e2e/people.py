"""People beside the administrator, and a second organization, put into a server's database while the server is stopped."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from terracrew import ids
from terracrew.api.access import Role, User
from terracrew.api.drift import DriftItem, DriftMute
from terracrew.api.fleet_jobs import FleetJobType, NewFleetJob
from terracrew.api.rollouts import Rollout, RolloutRunner, RolloutRunnerStatus, RolloutStatus
from terracrew.server.db import Database, open_database
from terracrew.server.db.seam import Tx
from terracrew.server.drift import store as drift
from terracrew.server.drift.model import DriftModule
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.forges import fact_store
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import service as identity
from terracrew.server.identity.people import store
from terracrew.server.identity.people.sessions import person
from terracrew.server.principals.model import SYSTEM
from terracrew.server.pull_requests import store as pull_requests
from terracrew.server.rollouts import store as rollouts
from terracrew.server.tree.groups import reads as group_reads
from terracrew.server.tree.groups import service as groups
from tests.builders import sign_on_rows
from tests.builders.clock import ShiftedClock
from tests.server.forges import forge_rows

DAY_SECONDS = 86_400.0
VOLATILE = {"last_used_at", "heard_at", "seen_at", "executor_heard_at"}


class People:
    """Makes people in this database, whose clock it may move, and tokens for them."""

    def __init__(self, db: Database, clock: ShiftedClock) -> None:
        self._db, self._clock = db, clock

    async def organization(self, name: str) -> str:
        return (await self._db.write(lambda tx: groups.ensure_organization(tx, name))).id

    async def default(self) -> str:
        return await self.organization("default")

    async def person(self, organization_id: str, name: str, role: str | None = None, path: str = "") -> User:
        user = await self._db.write(lambda tx: store.insert_user(tx, organization_id, name, is_system_admin=False))
        if role is not None:
            await self.grant(organization_id, user, role, path)
        return user

    async def grant(self, organization_id: str, user: User, role: str, path: str) -> None:
        await self._db.write(
            lambda tx: role_store.bind_role(tx, organization_id, "user", user.id, role, "group", path, user.id)
        )

    async def token(self, user: User, days: int | None = None) -> str:
        _, secret = await identity.create_token(self._db, person(user, None), "for a test", days)
        return secret.text

    async def expired_token(self, user: User) -> str:
        """Make a token of one day, two days ago."""
        self._clock.advance(-2 * DAY_SECONDS)
        try:
            return await self.token(user, days=1)
        finally:
            self._clock.advance(2 * DAY_SECONDS)

    async def session(self, user_id: str) -> str:
        """The id of a session of this user."""
        made = await self._db.write(lambda tx: store.insert_session(tx, user_id, "0" * 64, tx.now + 3600, None))
        return made.id

    async def disable(self, user: User) -> None:
        await self._db.write(lambda tx: store.set_disabled(tx, user.id, is_disabled=True))

    async def fleet_job(self, organization_id: str, group_id: str) -> str:
        """Make a fleet job that has ended, so that no loop of the server changes it."""

        async def write(tx: Tx) -> str:
            new = NewFleetJob(
                type=FleetJobType.CONNECTION_TEST,
                organization_id=organization_id,
                group_id=group_id,
                target_id="cid_x",
                target_name="team/x",
                identity_id="cid_x",
            )
            made = await fleet_jobs.create(tx, SYSTEM, new)
            return (await fleet_jobs.cancel(tx, SYSTEM, made.id, {})).id

        return await self._db.write(write)

    async def pull_request(self, organization_id: str, repository_id: str) -> str:
        """Make a pull request that was closed, so that no loop of the server changes it."""

        async def write(tx: Tx) -> str:
            [made] = await fact_store.save_answers(tx, repository_id, [forge_rows.pull_request(state="closed")], 1)
            await pull_requests.insert(tx, made.id, organization_id)
            row = await pull_requests.hold(tx, made.id)
            assert row is not None
            await pull_requests.save(tx, msgspec.structs.replace(row, is_active=False))
            return made.id

        return await self._db.write(write)

    async def provider(self, organization_id: str) -> dict[str, str]:
        """Make a provider of single sign-on with a rule and a person; return their ids by the names of parameters."""

        async def write(tx: Tx) -> dict[str, str]:
            made = await sign_on_rows.insert_provider(tx, organization_id, is_enabled=False)
            root = await group_reads.id_at(tx, organization_id, "")
            assert root is not None
            rule = await sign_on_rows.insert_rule(tx, made.id, root, "ours", Role.VIEWER)
            user = await store.insert_user(tx, organization_id, "known-there", is_system_admin=False)
            person = await sign_on_rows.log_in(tx, made.id, user.id, {"sub": "ours", "groups": []})
            return {"provider": made.id, "mapping_rule": rule, "person": person}

        return await self._db.write(write)

    async def mute(self, organization_id: str, module_id: str) -> str:
        """Make a module that differs from its state, with a mute of one of its addresses; return the id of the mute."""

        async def write(tx: Tx) -> str:
            asked = DriftModule(module_id=module_id, organization_id=organization_id, asked_by_name=ids.new("usr"))
            await drift.ask(tx, [asked])
            await drift.save(
                tx, msgspec.structs.replace(asked, checked_at=tx.moment, drifted=1, drifted_since=tx.moment)
            )
            found = DriftItem(module_id, "aws_vpc.ours", "update", "0" * 64, tx.moment, tx.moment)
            await drift.replace_items(tx, module_id, {}, [found])
            made = DriftMute(
                id=ids.new("mut"),
                organization_id=organization_id,
                module_id=module_id,
                address=found.address,
                reason="known",
                until=tx.moment + timedelta(days=30),
                created_by="usr_x",
                created_by_name="ops",
                created_at=tx.moment,
            )
            await drift.mute(tx, made)
            return made.id

        return await self._db.write(write)

    async def rollout(self, organization_id: str, group_id: str, runner_id: str) -> str:
        """Make a roll-out that has ended, with one runner."""

        async def write(tx: Tx) -> str:
            now = tx.moment
            made = Rollout(
                id=ids.new("rlo"),
                organization_id=organization_id,
                version="0.1.0-rc.2",
                status=RolloutStatus.DONE,
                is_automatic=True,
                started_by=SYSTEM.id,
                started_by_name=SYSTEM.name,
                started_at=now,
                ended_at=now,
            )
            runner = RolloutRunner(
                rollout_id=made.id,
                runner_id=runner_id,
                group_id=group_id,
                path="team/ours",
                wave=0,
                from_version="0.1.0-rc.1",
                status=RolloutRunnerStatus.SKIPPED,
                changed_at=now,
            )
            await rollouts.insert(tx, made, [runner])
            return made.id

        return await self._db.write(write)

    async def attempt(self, job_id: str) -> str:
        """Make an attempt that has just ended, with a number that a test can search for in answers.

        It has no log, so that the server's own loops do not change its row while a test compares all rows.
        """

        async def insert(tx: Tx) -> None:
            await tx.run(
                "INSERT INTO attempts (job_id, number, runner_id, instance_id, hub_sha256, api_sha256, state_key,"
                " claimed_at, ended_at, outcome, has_log_chunks)"
                " VALUES (:job_id, 1987654321, 'rnr_x', 'ins_x', 'x', 'x', :x, :now, :now, 'handed_back', :no)",
                job_id=job_id,
                x=b"x",
                now=tx.now,
                no=False,
            )

        await self._db.write(insert)
        return "1987654321"

    async def quarantined_state(self, module_id: str, job_id: str) -> str:
        made = ids.new("sta")

        async def insert(tx: Tx) -> None:
            await tx.run(
                "INSERT INTO states (id, module_id, status, job_id, attempt, event, origin, serial, lineage, sha256, size,"
                " content, created_at)"
                " VALUES (:id, :module_id, 'quarantined', :job_id, 1, 1, 'engine', 1, 'lineage', 'x', 1, :x, :now)",
                id=made,
                module_id=module_id,
                job_id=job_id,
                x=b"x",
                now=tx.now,
            )

        await self._db.write(insert)
        return made


@asynccontextmanager
async def opened(data: Path) -> AsyncGenerator[People]:
    """Open the database of a server that is stopped."""
    db = await open_database(str(data / "terracrew.db"), clock := ShiftedClock())
    try:
        yield People(db, clock)
    finally:
        await db.close()


class Snapshots:
    """Takes one snapshot after the other of a database, and reads its rows again only if somebody has written to it since."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._connection = _connected(data)
        self._version = -1
        self._rows: dict[str, Any] = {}

    def take(self) -> dict[str, Any]:
        """Return `everything`. The version that SQLite counts changes with every commit of another connection."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            self._rows, self._version = everything(self._data), version
        return self._rows

    def close(self) -> None:
        self._connection.close()


def everything(data: Path) -> dict[str, Any]:
    """All rows of all tables, less what changes by itself: what a request has changed is the difference."""
    connection = _connected(data)
    connection.row_factory = sqlite3.Row
    try:
        tables = connection.execute(
            """SELECT name FROM sqlite_schema WHERE type = 'table'
            AND name NOT IN ('history', 'leases', 'figure_entries', 'figure_samples', 'figures')"""
        ).fetchall()
        return {name: [_row(row) for row in connection.execute(f"SELECT * FROM {name}")] for (name,) in tables}
    finally:
        connection.close()


def _connected(data: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{data / 'terracrew.db'}?mode=ro", uri=True)


def _row(row: sqlite3.Row) -> dict[str, Any]:
    return {name: row[name] for name in row.keys() if name not in VOLATILE}  # noqa: SIM118 - a Row iterates over values
