"""What has changed, as it changes: one stream of ids for each open page, of the things that its reader may see."""

import asyncio
from collections.abc import AsyncIterator

from litestar import Router, get
from litestar.response import Stream

from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb, Visible
from terracrew.server.identity.model import Principal
from terracrew.server.request import Call

TOPICS = ("jobs", "runners", "tree")
"""What a page hears of. A change of an instance, whose key is `<runner> <instance>`, is told as one of its runner."""
KEEP_ALIVE = 15.0
PING = b"event: ping\ndata: {}\n\n"  # a comment would be invisible to the page
PATIENCE = 2.0
GATHER = 0.05
"""What happens within this time is told at once: a page reads its fragment anew once, not for every step of a job."""


@get("/events", media_type="text/event-stream", summary="Follow changes")
async def events(request: Call) -> Stream:
    """Server-sent events: `jobs`, `runners` or `tree`, with the id of what has changed; `all` where everything may have."""
    authorize.require_reader(request.user)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    server = request.server
    stream = server.streams.admit(request.user, _changes(server.db, request.user, server.closing))
    return Stream(stream, media_type="text/event-stream", headers=headers)


async def _changes(db: Database, reader: Principal, closing: asyncio.Event) -> AsyncIterator[bytes]:
    with db.listen(*TOPICS, "instances") as wakeups:
        yield b"retry: 1000\n\n"
        stop = asyncio.create_task(closing.wait())
        came: asyncio.Task[set[tuple[str, str]]] | None = None
        try:
            while not closing.is_set():
                came = asyncio.create_task(wakeups.get(timeout=KEEP_ALIVE))
                await asyncio.wait([came, stop], return_when=asyncio.FIRST_COMPLETED)
                if not came.done():
                    return
                woken = came.result()
                if not woken:
                    yield PING
                    continue
                await asyncio.sleep(GATHER)
                woken |= await wakeups.get(timeout=0)
                try:
                    seen = await _seen(db, reader, {_shown(*wake) for wake in woken})
                except Unavailable:  # a page that is open stays so, and reads everything anew when that is over
                    while not await db.ready(PATIENCE) and not closing.is_set():
                        yield PING
                    seen = {(topic, "") for topic in TOPICS}
                for topic, key in sorted(seen):
                    yield f"event: {topic}\ndata: {key or 'all'}\n\n".encode()
        except Unavailable:
            return  # the database is being closed; the browser comes again
        finally:
            stop.cancel()
            if came is not None:
                came.cancel()


def _shown(topic: str, key: str) -> tuple[str, str]:
    return ("runners", key.partition(" ")[0]) if topic == "instances" else (topic, key)


async def _seen(db: Database, reader: Principal, woken: set[tuple[str, str]]) -> set[tuple[str, str]]:
    async def read(tx: Tx) -> set[tuple[str, str]]:
        jobs = await authorize.visible(tx, reader, Verb.JOB_READ)
        runners = await authorize.visible(tx, reader, Verb.RUNNER_READ)
        seen = {(topic, key) for topic, key in woken if topic != "tree" and not key}
        if any(topic == "tree" for topic, _ in woken):
            seen.add(("tree", ""))  # that something of it has changed is no secret; what it is, the page asks for
        seen |= {("jobs", key) for topic, key in woken if topic == "jobs" and key and await _sees_job(tx, jobs, key)}
        seen |= {
            ("runners", key)
            for topic, key in woken
            if topic == "runners" and key and await _sees_runner(tx, runners, key)
        }
        return seen

    return await db.read(read)


async def _sees_job(tx: Tx, visible: Visible, job_id: str) -> bool:
    row = await tx.one(
        """SELECT jobs.organization_id, modules.path
        FROM jobs JOIN modules ON modules.id = jobs.module_id AND modules.organization_id = jobs.organization_id
        WHERE jobs.id = :id""",
        id=job_id,
    )
    return row is not None and visible.covers(authorize.module(row["organization_id"], row["path"]))


async def _sees_runner(tx: Tx, visible: Visible, runner_id: str) -> bool:
    row = await tx.one(
        """SELECT runners.organization_id, groups.path FROM runners LEFT JOIN groups ON groups.id = runners.group_id
        WHERE runners.id = :id""",
        id=runner_id,
    )
    if row is None or row["organization_id"] is None:
        return True  # a removed one tells nothing any more, and a shared one is everybody's
    return visible.covers(authorize.group(row["organization_id"], row["path"]))


router = Router("/api/v1", route_handlers=[events], tags=["live"])
