"""Logs over HTTP: whole or in part, and live as server-sent events."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from litestar import Response, get
from litestar.params import FromPath, FromQuery, HeaderParameter, QueryParameter
from litestar.response import Stream

from terracrew.api.job_views import LogFound
from terracrew.api.jobs import Job
from terracrew.errors import Invalid
from terracrew.protocol.spec import Step
from terracrew.server.api.context import RunsCall
from terracrew.server.db.seam import Tx
from terracrew.server.http import streams
from terracrew.server.http.streams import begun
from terracrew.server.jobs import service as jobs
from terracrew.server.logs import reads
from terracrew.server.logs.chunks import ALL, Only
from terracrew.server.logs.patterns import MAX_PATTERN_CHARACTERS
from terracrew.server.logs.reads import Extent
from terracrew.server.logs.scan import LogQuery
from terracrew.server.logs.tail import Cursor, Position
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import log, log_search, view
from terracrew.server.runs.follow import MAX_LATE_ATTEMPTS, FollowedBatch, follow

MAX_LINES = 10_000
MAX_HITS = 1_000
MAX_CONTEXT_LINES = 20
Attempt = Annotated[
    int | None, QueryParameter(ge=1, le=1 << 31, description="The log of this attempt alone; else of the whole run")
]
_PLACE = re.compile(r"(\d{1,9})\.(\d{1,15})\Z")
_NUMBER = re.compile(r"\d{1,15}\Z")
MAX_PLACE_CHARACTERS = 200
Since = Annotated[datetime | None, QueryParameter(description="Only what was printed at this time or later")]
StepName = Annotated[
    str, QueryParameter(max_length=20, description="Only what this step has printed, for example `apply`")
]


@get("/jobs/{job:str}/log", summary="Read a job's log")
async def read_log(
    request: RunsCall,
    job: FromPath[str],
    attempt: Attempt = None,
    format: FromQuery[Literal["text", "events"]] = "text",  # noqa: A002 - it is what the address says
    after: Annotated[
        str,
        QueryParameter(
            max_length=MAX_PLACE_CHARACTERS,
            description="Events after this one: `<attempt>.<number>`, or its number if `attempt` is given",
        ),
    ] = "",
    limit: Annotated[int | None, QueryParameter(ge=1, description="How many events at most")] = None,
    line: Annotated[
        int | None,
        QueryParameter(
            ge=1, le=1 << 53, description="Only text from this line on, from 1; of `attempt`, else of the last one"
        ),
    ] = None,
    lines: Annotated[int, QueryParameter(ge=1, le=MAX_LINES, description="How many lines, with `line`")] = 1_000,
    since: Since = None,
    step: StepName = "",
    download: FromQuery[bool] = False,
) -> Stream | Response[bytes]:
    """As it was printed, colours included. With `format=events`, a JSON object a line: `{n, time, step, stream, text, attempt}`.

    Without `attempt` it is the log of the whole run: that of each attempt in order, and between two of them a line that says
    what happened (an event with the number 0 and the step `between`). An event is not a line: it holds the whole lines that
    came at one time, or a part of a long one.
    """
    place, only = _place(after, attempt), _only(since, step)
    if line is not None and only is not ALL:
        raise Invalid.in_field("line", "`line` counts all lines: leave out `since` and `step`")
    db, objects = request.context.db, request.context.objects
    found, extent = await db.read(lambda tx: _find(tx, request, job, attempt))
    name = f"job-{found.number}" if attempt is None else f"job-{found.number}-attempt-{attempt}"
    headers = {"X-Log-Lines": str(extent.lines), "X-Log-Attempt": str(extent.attempt)}
    if download:
        headers["Content-Disposition"] = f'attachment; filename="{name}.{"jsonl" if format == "events" else "log"}"'
    if format == "events":
        if attempt is None:
            rows = log.events(db, objects, found.id, place, limit, only)
        else:
            rows = reads.events(db, objects, found.id, attempt, place.event, limit, only)
        return await _streamed(request, _json_lines(rows), "application/x-ndjson", headers)
    if line is not None:
        part = await reads.lines(db, objects, found.id, extent, line - 1, lines)
        return Response(part, media_type="text/plain", headers=headers)
    whole = (
        log.text(db, objects, found.id, only) if attempt is None else reads.text(db, objects, found.id, attempt, only)
    )
    return await _streamed(request, whole, "text/plain", headers)


@get("/jobs/{job:str}/log/search", summary="Search in a job's log")
async def search_log(
    request: RunsCall,
    job: FromPath[str],
    text: Annotated[
        str, QueryParameter(min_length=1, max_length=MAX_PATTERN_CHARACTERS, description="What a line must contain")
    ],
    regex: Annotated[
        bool, QueryParameter(description="`text` is a regular expression, as RE2 understands them")
    ] = False,
    case: Annotated[bool, QueryParameter(description="Upper and lower case differ")] = False,
    since: Since = None,
    step: StepName = "",
    attempt: Attempt = None,
    after: Annotated[
        str,
        QueryParameter(
            max_length=MAX_PLACE_CHARACTERS,
            description="Only lines after this place: `<attempt>.<line>`, as `after` of the page before says",
        ),
    ] = "",
    limit: Annotated[int, QueryParameter(ge=1, le=MAX_HITS, description="How many hits at most")] = 100,
    context: Annotated[
        int,
        QueryParameter(ge=0, le=MAX_CONTEXT_LINES, description="How many lines before and after each hit are shown"),
    ] = 0,
) -> LogFound:
    """Lines whose text without colours contains `text`, from the start of the log, with the attempt, line, time and step of each.

    A page takes a second at most, and ends soon after the first hits, so it may have few hits or none before the end of the log: ask
    again with its `after` until `is_end`. While `is_live`, later lines can be asked for in the same way.
    """
    place = log_search.start(after, attempt)
    query = LogQuery(text, regex, case, _only(since, step), context)
    context_ = request.context
    found, _ = await context_.db.read(lambda tx: _find(tx, request, job, attempt))
    async with context_.log_searches.turn(request.user.id):
        return await log_search.search(
            context_.db, context_.objects, context_.log_searches, found.id, query, place, limit, attempt=attempt
        )


@get("/jobs/{job:str}/log/stream", summary="Follow a job and its log", media_type="text/event-stream")
async def stream_log(
    request: RunsCall,
    job: FromPath[str],
    attempt: Attempt = None,
    last_event_id: FromQuery[str | None] = None,
    resumed: Annotated[str | None, HeaderParameter(name="Last-Event-ID")] = None,
) -> Stream:
    """Server-sent events, resumed by `Last-Event-ID` where they broke off.

    `log` is a JSON list of events as in the log. Its id is `<attempt>.<number of the last one>`, followed by such places in
    earlier attempts that were lost and may still deliver lines. `job` is the job, when it has changed; `ping` says that there
    is nothing to say, `end` that nothing more will come. The stream is that of the whole run, from its first attempt on,
    unless an attempt is named.
    """
    context = request.context
    found = await context.db.read(lambda tx: _find_followed(tx, request, job, attempt))
    cursor = _cursor(resumed or last_event_id, found, attempt)
    news = follow(context.db, context.watchers, context.closing, found.id, cursor, one_attempt=attempt is not None)
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    stream = context.streams.admit(request.user, _sent(request, found.id, news))
    return Stream(stream, media_type="text/event-stream", headers=headers)


def _only(since: datetime | None, step: str) -> Only:
    if since is None and not step:
        return ALL
    try:
        return Only(since.timestamp() if since else None, frozenset({Step(step).number}) if step else frozenset())
    except ValueError:
        raise Invalid.in_field("step", f"there is no step {step!r}: there are {', '.join(Step)}") from None


async def _streamed(request: RunsCall, found: AsyncIterator[bytes], media_type: str, headers: dict[str, str]) -> Stream:
    """Answer with a log, compressed if the reader understands that. It is large, and holds nothing of the reader."""
    headers |= streams.VARY
    pieces = await begun(found)
    if streams.is_gzip_accepted(request.headers):
        return Stream(streams.zipped(pieces), media_type=media_type, headers=headers | streams.GZIP_HEADERS)
    return Stream(pieces, media_type=media_type, headers=headers)


async def _find(tx: Tx, request: RunsCall, job: str, attempt: int | None) -> tuple[Job, Extent]:
    found = await jobs.find(tx, request.user, job, Verb.JOB_READ)
    return found, await reads.extent(tx, found.id, attempt)


async def _find_followed(tx: Tx, request: RunsCall, job: str, attempt: int | None) -> Job:
    found = await jobs.find(tx, request.user, job, Verb.JOB_READ)
    if attempt is not None:
        await reads.extent(tx, found.id, attempt)  # the attempt exists
    return found


def _place(text: str, attempt: int | None) -> Position:
    """Return the place that events are read after: with an attempt, a number in it is enough."""
    if not text or text == "0":
        return Position(attempt or 1, 0)
    if attempt is not None and _NUMBER.match(text):
        return Position(attempt, int(text))
    place = _PLACE.match(text)
    if place is None or (attempt is not None and int(place[1]) != attempt) or not int(place[1]):
        raise Invalid.in_field(
            "after", f"{text!r} is not a place in this log: give <attempt>.<number>, for example 2.17"
        )
    return Position(int(place[1]), int(place[2]))


def _cursor(last_id: str | None, job: Job, attempt: int | None) -> Cursor:
    start = Cursor(Position(attempt or 1, 0))
    if not last_id:
        return start
    places = [_PLACE.match(each) for each in last_id[:MAX_PLACE_CHARACTERS].split(",")[: 1 + MAX_LATE_ATTEMPTS]]
    known = [Position(int(place[1]), int(place[2])) for place in places if place is not None]
    if len(known) < len(places):
        raise Invalid(f"{last_id!r} is not the id of an event of this stream")
    main, late = known[0], tuple(each for each in known[1:] if 0 < each.attempt < known[0].attempt)
    # Of another attempt than the one that is asked for: that one is read from its start.
    is_of_it = main.attempt == attempt if attempt is not None else 0 < main.attempt <= job.attempt + 1
    return Cursor(main, () if attempt is not None else late) if is_of_it else start


async def _json_lines(found: "AsyncIterator[list[reads.LogEvent]]") -> AsyncIterator[bytes]:
    encoder = msgspec.json.Encoder()
    async for events in found:
        yield encoder.encode_lines(events)


async def _sent(request: RunsCall, job_id: str, news: AsyncGenerator[object]) -> AsyncIterator[bytes]:
    db, watch = request.context.db, request.context.watch.for_reader(request.user)
    seen = b""
    piece = b"retry: 1000\n\n"
    async for each in news:
        if isinstance(each, FollowedBatch):
            piece += b"id: %b\nevent: log\ndata: %b\n\n" % (str(each.cursor).encode(), each.data)
        elif each != "quiet" or await db.ready(0):
            # Also without any event: the reason why a job waits can change with time.
            found = await view.current(db, lambda tx: jobs.find(tx, request.user, job_id, Verb.JOB_READ), watch)
            now = msgspec.json.encode(found)
            if now != seen:
                piece += b"event: job\ndata: %b\n\n" % now
            seen = now
        piece += streams.ending_event(each)
        if piece:
            yield piece
        piece = b""
