"""Inserts the rows of a company: its runners, modules, jobs and logs."""

import time
from typing import LiteralString, cast

import msgspec

from terracrew import ids
from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import STEPS_OF, JobType, Step
from terracrew.server.db.seam import Param, Tx
from terracrew.server.logs import chunks


class Company:
    """Writes rows of one organization; every method returns the id of what it made."""

    def __init__(self, tx: Tx, organization_id: str, user_id: str) -> None:
        self.tx, self.organization_id, self.user_id, self.now = tx, organization_id, user_id, time.time()
        self.number = 400

    async def insert(self, table: str, **values: Param) -> None:
        columns, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        await self.tx.run(cast("LiteralString", f"INSERT INTO {table} ({columns}) VALUES ({places})"), **values)

    async def group(self, path: str) -> str:
        row = await self.tx.one(
            "SELECT id FROM groups WHERE organization_id = :org AND path = :path", org=self.organization_id, path=path
        )
        if row:
            return row["id"]
        parent, _, name = path.rpartition("/")
        made = ids.new("grp")
        await self.insert(
            "groups",
            id=made,
            organization_id=self.organization_id,
            parent_id=await self.group(parent),
            name=name,
            path=path,
            depth=path.count("/") + 1,
            created_at=self.now,
        )
        return made

    async def module(self, path: str, description: str = "", **more: Param) -> str:
        group, _, name = path.rpartition("/")
        made = ids.new("mod")
        await self.insert(
            "modules",
            id=made,
            organization_id=self.organization_id,
            group_id=await self.group(group),
            name=name,
            path=path,
            description=description,
            engine="tofu",
            created_at=self.now - 9e5,
            state_version=3,
            source=msgspec.json.encode({"kind": "local", "path": f"/srv/sources/{name}"}).decode(),
            **more,
        )
        return made

    async def runner(self, path: str, description: str = "", *, shared: bool = False, **more: Param) -> str:
        group, _, name = path.rpartition("/")
        made = ids.new("rnr")
        group_id = None if shared else await self.group(group)
        values: dict[str, Param] = {
            "type": "self-hosted",
            "max_jobs": 8,
            "allow_multiple_instances": False,
            "worker_token_sha256": made,
        } | more
        await self.insert(
            "runners",
            id=made,
            organization_id=None if shared else self.organization_id,
            group_id=group_id,
            name=name,
            path=path,
            description=description,
            created_at=self.now - 30 * 86400,
            **values,
        )
        if group_id:
            await self.insert(
                "assignments",
                runner_id=made,
                place_id=group_id,
                kind="group",
                organization_id=self.organization_id,
                path=group,
                created_at=self.now,
            )
        return made

    async def instance(self, runner_id: str, name: str, *, silent: float = 1, capacity: int = 4, **more: Param) -> str:
        made = ids.new("ins")
        values: dict[str, Param] = {"version": "1.4.0", "is_connected": silent < 60, "is_draining": False} | more
        await self.insert(
            "instances",
            id=made,
            runner_id=runner_id,
            name=name,
            key_sha256=made,
            epoch=1,
            capacity=capacity,
            engines='{"tofu":"1.12.6"}',
            connected_at=self.now - 7200,
            heard_at=self.now - silent,
            disconnected_at=None if values["is_connected"] else self.now - silent,
            **values,
        )
        return made

    async def job(self, module_id: str, kind: JobType, status: str, *, age: float = 60, **more: Param) -> str:
        made, self.number = ids.new("job"), self.number + 1
        values: dict[str, Param] = {"created_by": self.user_id, "queued_at": self.now - age} | more
        if status in ("SUCCEEDED", "FAILED", "CANCELED"):
            values |= {"started_at": self.now - age, "finished_at": self.now - age + 21.4}
        elif status == "PROCESSING":
            values |= {"claimed_at": self.now - age, "started_at": self.now - age}
        await self.insert(
            "jobs",
            id=made,
            organization_id=self.organization_id,
            module_id=module_id,
            number=self.number,
            type=kind.value,
            status=status,
            source='{"kind":"local","path":"/srv/sources/x"}',
            engine_version="1.12.6",
            source_description="v2.3.1 · 8c1f0e2",
            created_at=self.now - age,
            **values,
        )
        return made

    async def attempt(self, job_id: str, runner_id: str, instance_id: str, *, number: int = 1, **more: Param) -> None:
        await self.insert(
            "attempts",
            job_id=job_id,
            number=number,
            runner_id=runner_id,
            instance_id=instance_id,
            state_key=b"",
            hub_sha256=ids.new("key"),
            api_sha256=ids.new("key"),
            claimed_at=self.now - 60,
            **more,
        )

    async def steps(self, job_id: str, kind: JobType, done: int, last: str = "RUNNING", *, attempt: int = 1) -> None:
        """The first `done` steps have succeeded, the next one is as `last` says."""
        for at, step in enumerate(STEPS_OF[kind][: done + (last != "")]):
            status = last if at == done else "SUCCEEDED"
            start = self.now - 60 + 3.1 * at
            await self.insert(
                "steps",
                job_id=job_id,
                attempt=attempt,
                name=step.value,
                status=status,
                started_at=start,
                finished_at=None if status == "RUNNING" else start + 0.3 * (at + 1),
                exit_code=int(status == "FAILED"),
            )

    async def log(self, job_id: str, texts: list[tuple[Step, str]], *, attempt: int = 1, first: int = 1) -> None:
        records = [
            Record(Kind.LOG, Stream.OUTPUT, step.number, self.now - 60 + at / 10, text.encode())
            for at, (step, text) in enumerate(texts)
        ]
        chunk = chunks.pack(list(enumerate(records, first)))
        assert chunk is not None
        found = await self.tx.one(
            "SELECT lines FROM attempts WHERE job_id = :id AND number = :attempt", id=job_id, attempt=attempt
        )
        await self.insert(
            "log_chunks",
            job_id=job_id,
            attempt=attempt,
            first=chunk.first,
            last=chunk.last,
            first_line=0 if found is None else found["lines"],
            lines=chunk.lines,
            size=chunk.size,
            data=chunk.data,
        )
        await self.tx.run(
            "UPDATE attempts SET mark = :mark, lines = lines + :lines WHERE job_id = :id AND number = :attempt",
            mark=chunk.last,
            lines=chunk.lines,
            id=job_id,
            attempt=attempt,
        )
