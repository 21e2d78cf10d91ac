"""Jobs of the fleet over HTTP: they deploy, update and remove cloud-hosted runners, and test connections to clouds."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter
from litestar.response import Stream

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetJobView, FleetLine
from terracrew.api.pages import Page
from terracrew.errors import Invalid
from terracrew.server.api.context import RunsCall
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import service
from terracrew.server.fleet_jobs.reads import FleetJobFilter
from terracrew.server.fleet_jobs.service import FleetNews, LogPlace
from terracrew.server.http import streams
from terracrew.server.paging import After, Limit

MAX_LOG_LINES = 10_000
MAX_PLACE_CHARACTERS = 40
_PLACE = re.compile(r"(\d{1,9})\.(\d{1,15})\Z")


@get("/fleet-jobs", summary="List jobs of the fleet")
async def listing(
    request: RunsCall,
    type: FromQuery[FleetJobType | None] = None,  # noqa: A002 - it is what the address says
    status: FromQuery[FleetJobStatus | None] = None,
    target: Annotated[
        str | None,
        QueryParameter(max_length=100, description="The id of a runner, or of a cloud identity with all of its jobs"),
    ] = None,
    after: After = None,
    limit: Limit = 50,
) -> Page[FleetJob]:
    """List the jobs that deploy, update or remove cloud-hosted runners or test connections, the newest first."""
    return await request.read_in_background(service.listing, FleetJobFilter(type, status, target), after, limit)


@get("/fleet-jobs/{fleet_job:str}", summary="Show a job of the fleet")
async def show(request: RunsCall, fleet_job: FromPath[str]) -> FleetJobView:
    """Show a job by its id or its number, with the steps of its current attempt."""
    return await request.read(service.show, fleet_job)


@get("/fleet-jobs/{fleet_job:str}/log", summary="Read the log of a job of the fleet")
async def read_log(
    request: RunsCall,
    fleet_job: FromPath[str],
    format: FromQuery[Literal["text", "events"]] = "text",  # noqa: A002 - it is what the address says
    after: Annotated[
        str, QueryParameter(max_length=MAX_PLACE_CHARACTERS, description="Lines after this one: `<attempt>.<number>`")
    ] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_LOG_LINES, description="How many lines at most")] = MAX_LOG_LINES,
) -> Response[bytes]:
    """The lines of all attempts in order. With `format=events`, a JSON object a line: `{attempt, number, at, text}`."""
    place = _place(after)
    found = await request.read_in_background(service.lines, fleet_job, place.attempt, place.number, limit)
    if format == "events":
        return Response(msgspec.json.Encoder().encode_lines(found), media_type="application/x-ndjson")
    return Response("".join(f"{each.text}\n" for each in found).encode(), media_type="text/plain")


@get("/fleet-jobs/{fleet_job:str}/log/stream", summary="Follow a job of the fleet", media_type="text/event-stream")
async def stream_log(
    request: RunsCall,
    fleet_job: FromPath[str],
    last_event_id: FromQuery[str | None] = None,
    resumed: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Stream:
    """Server-sent events, resumed by `Last-Event-ID` where they broke off.

    `log` is a JSON list of lines; its id is `<attempt>.<number of the last one>`. `job` is the job with its steps, when it has
    changed; `ping` says that there is nothing to say, `end` that nothing more will come.
    """
    context, who = request.context, request.user
    place = _place(resumed or last_event_id or "")
    found = await request.read(service.find, fleet_job)
    news = service.follow(context.db, context.closing, found.id, place)
    stream = context.streams.admit(who, _sent(request, found.id, news))
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return Stream(stream, media_type="text/event-stream", headers=headers)


@post("/fleet-jobs/{fleet_job:str}/cancel", status_code=200, summary="Cancel a job of the fleet")
async def cancel(request: RunsCall, fleet_job: FromPath[str]) -> FleetJobView:
    """Cancel a job that waits. One that runs removes what it has made, and ends after that."""
    handlers = request.context.fleet_handlers

    async def write(tx: Tx) -> FleetJobView:
        return await service.view(tx, await service.cancel(tx, request.user, fleet_job, handlers))

    return await request.context.db.write(write)


def _place(text: str) -> LogPlace:
    if not text or text == "0":
        return LogPlace()
    found = _PLACE.match(text[:MAX_PLACE_CHARACTERS])
    if found is None:
        raise Invalid.in_field(
            "after", f"{text[:MAX_PLACE_CHARACTERS]!r} is not a place in a log: give <attempt>.<number>, such as 2.17"
        )
    return LogPlace(int(found[1]), int(found[2]))


async def _sent(
    request: RunsCall, job_id: str, news: AsyncGenerator[tuple[LogPlace, FleetNews]]
) -> AsyncIterator[bytes]:
    seen, piece = b"", b"retry: 1000\n\n"
    async for place, each in news:
        if isinstance(each, list):
            lines: list[FleetLine] = each
            piece += b"id: %b\nevent: log\ndata: %b\n\n" % (str(place).encode(), msgspec.json.encode(lines))
        elif each != "quiet":
            now = msgspec.json.encode(await request.read(service.show, job_id))
            if now != seen:
                piece += b"event: job\ndata: %b\n\n" % now
            seen = now
        piece += streams.ending_event(each)
        if piece:
            yield piece
        piece = b""
