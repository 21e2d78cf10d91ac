"""What is stored and what retention would remove, for administrators of the server."""

from litestar import Response, Router, get

from terracrew.api.operations import Preview, SurveyProgress, Usage
from terracrew.server.api.operations.context import OperationsCall
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb


@get("/server/usage", summary="Show what is stored")
async def get_usage(request: OperationsCall) -> Response[Usage | SurveyProgress]:
    """Show counts and bytes by kind, the largest modules, and what retention would remove. Administrators only.

    Counting may take minutes. Until it is finished, the answer is 202 and says what is being counted: ask again.
    """
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
    found = await request.context.surveys.usage.current()
    return Response(found, status_code=202 if isinstance(found, SurveyProgress) else 200)


@get("/server/retention", summary="Show what retention would remove")
async def get_preview(request: OperationsCall) -> Response[Preview | SurveyProgress]:
    """Show what the settings keep, what the next pass would remove, and which orphans. Administrators only.

    Nothing is removed by this. Until the counting is finished, the answer is 202: ask again.
    """
    await authorize.require(request.context.db, request.user, Verb.SERVER_ADMIN, authorize.SERVER)
    found = await request.context.surveys.preview.current()
    return Response(found, status_code=202 if isinstance(found, SurveyProgress) else 200)


router = Router("/api/v1", route_handlers=[get_usage, get_preview], tags=["server"])
