"""What has changed, as it changes: one stream of ids for each open page, of the things that its reader may see."""

import asyncio
from collections.abc import AsyncIterator

from litestar import get
from litestar.response import Stream

from terracrew.errors import Unavailable
from terracrew.server.api.context import RunsCall
from terracrew.server.db import topics
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.topics import Topic
from terracrew.server.jobs import reads as jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runners

TOPICS: tuple[Topic, ...] = ("access", "fleet", "forges", "holds", "jobs", "releases", "runners", "tree")
"""The topics that pages receive. A change of an instance, whose key is `<runner> <instance>`, or of a deployment is sent as one of its
runner, a change of a roll-out as one of the releases, and one of the master key as one of the holds. Schedules, drift, discovery and
pull requests are parts of the tree."""
_UNNAMED: tuple[Topic, ...] = ("fleet", "forges", "holds", "releases", "tree")
"""The topics whose events name nothing."""
_OF_ACCESS: tuple[Topic, ...] = ("access", "access_log", "roles")
"""The topics that are sent as `access`: their keys name an organization or a principal."""
_LISTENED: tuple[Topic, ...] = (
    *TOPICS,
    "access_log",
    "deployments",
    "discovery",
    "drift",
    "instances",
    "pull_requests",
    "rekey",
    "roles",
    "rollouts",
    "schedules",
)
KEEP_ALIVE_SECONDS = 15.0
PING = b"event: ping\ndata: {}\n\n"  # a comment would be invisible to the page
SEND_TIMEOUT_SECONDS = 2.0
MAX_NAMED_CHANGES = 200
"""If more jobs or runners than this have changed at once, the event names none of them."""
GATHER_SECONDS = 0.02
"""What happens within this time is told at once: a page reads its fragment anew once, not for every step of a job."""


@get("/events", media_type="text/event-stream", summary="Follow changes")
async def events(request: RunsCall) -> Stream:
    """Server-sent events: `jobs`, `runners`, `fleet`, `forges`, `holds`, `releases`, `tree` or `access`, with the id of what has
    changed; `all` where everything may have. `fleet`, `forges`, `holds`, `releases` and `tree` name nothing."""
    authorize.require_reader(request.user)
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    context = request.context
    stream = context.streams.admit(request.user, _changes(context.db, request.user, context.closing))
    return Stream(stream, media_type="text/event-stream", headers=headers)


async def _changes(db: Database, reader: Principal, closing: asyncio.Event) -> AsyncIterator[bytes]:
    with db.listen(*_LISTENED) as wakeups:
        yield b"retry: 1000\n\n"
        stop = asyncio.create_task(closing.wait())
        came: asyncio.Task[set[tuple[str, str]]] | None = None
        try:
            while not closing.is_set():
                came = asyncio.create_task(wakeups.get(timeout=KEEP_ALIVE_SECONDS))
                await asyncio.wait([came, stop], return_when=asyncio.FIRST_COMPLETED)
                if not came.done():
                    return
                woken = came.result()
                if not woken:
                    yield PING
                    continue
                await asyncio.sleep(GATHER_SECONDS)
                woken |= await wakeups.get(timeout=0)
                try:
                    seen = await visible_changes(db, reader, {_shown(*wake) for wake in woken})
                except Unavailable:  # a page that is open stays so, and reads everything anew when that is over
                    while not await db.ready(SEND_TIMEOUT_SECONDS) and not closing.is_set():
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
    if topic in _OF_ACCESS:
        return "access", key
    if topic == "rollouts":
        return "releases", ""
    if topic in ("holds", "rekey"):
        return "holds", ""
    if topic in ("discovery", "drift", "pull_requests", "schedules"):
        return "tree", ""
    if topic == "forges":
        return "forges", ""
    return ("runners", topics.runner_of(topic, key)) if topic in ("instances", "deployments") else (topic, key)


async def visible_changes(db: Database, reader: Principal, woken: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return what of it the reader may see. After very many changes, a page is told once that everything may have changed.

    A change of access is told, without an id, to the person whom it is about and to those who may read access somewhere in
    the organization.
    """
    keys = {topic: sorted(key for of, key in woken if of == topic and key) for topic in ("jobs", "runners")}
    seen = {(topic, "") for topic, key in woken if topic in _UNNAMED or not key}  # these wake-ups name nothing
    for topic in list(keys):
        if len(keys[topic]) > MAX_NAMED_CHANGES:
            del keys[topic]
            seen.add((topic, ""))

    concerned = {key for topic, key in woken if topic == "access"}
    if reader.id in concerned:
        seen.add(("access", ""))
    is_access_asked = ("access", "") not in seen and reader.organization_id in concerned

    async def read(tx: Tx) -> set[tuple[str, str]]:
        found = {("jobs", key) for key in await _seen_jobs(tx, reader, keys.get("jobs", []))}
        found |= {("runners", key) for key in await _seen_runners(tx, reader, keys.get("runners", []))}
        if is_access_asked and not (await authorize.visible(tx, reader, Verb.ACCESS_READ)).is_nothing:
            found.add(("access", ""))
        return found

    return seen | (await db.read(read) if is_access_asked or any(keys.values()) else set())


async def _seen_jobs(tx: Tx, reader: Principal, job_ids: list[str]) -> list[str]:
    rows = await jobs.places(tx, job_ids)
    visible = await authorize.visible(tx, reader, Verb.JOB_READ)
    return [row["id"] for row in rows if visible.covers(authorize.module(row["organization_id"], row["path"]))]


async def _seen_runners(tx: Tx, reader: Principal, runner_ids: list[str]) -> list[str]:
    """Return the runners that the reader may see. Removed ones reveal nothing and shared ones serve everybody, so both are included."""
    rows = await runners.places(tx, runner_ids)
    visible = await authorize.visible(tx, reader, Verb.RUNNER_READ)
    hidden = {row["id"] for row in rows if not visible.covers(authorize.group(row["organization_id"], row["path"]))}
    return [runner_id for runner_id in runner_ids if runner_id not in hidden]
