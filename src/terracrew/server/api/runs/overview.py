"""The overview over HTTP: what needs the caller, what waits, and figures."""

from typing import Annotated

from litestar import get
from litestar.params import QueryParameter

from terracrew.api.overview import Overview, OverviewSpan
from terracrew.server.api.context import RunsCall
from terracrew.server.overview import service

Span = Annotated[OverviewSpan, QueryParameter(description="How far back the figures go")]
Within = Annotated[str, QueryParameter(description="Only this group and what is below it, by its path or id")]
Mine = Annotated[
    bool, QueryParameter(description="Only the groups at which roles of the caller are bound, if there are any")
]


@get("/overview", summary="Show the overview")
async def overview(request: RunsCall, span: Span = "day", place: Within = "", mine: Mine = False) -> Overview:
    """Show what needs the caller, what waits, and figures of jobs and runners, as far as the caller may see them.

    Figures are kept for whole groups and begin with the version that has them.
    """
    watch = request.context.watch.for_reader(request.user)
    return await request.read_in_background(service.read, watch, span, place, mine)
