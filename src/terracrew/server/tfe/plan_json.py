"""Plans as JSON, which `show` asks for."""

from litestar import Response, get
from litestar.params import FromPath

from terracrew.server.terminals import plan_json
from terracrew.server.terminals.plan_json import PlanForm
from terracrew.server.tfe.context import TfeCall


@get("/plans/{job:str}/json-output")
async def show_json(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    """Return what `show -json` prints of the plan, with sensitive values replaced."""
    return await _answer(request, job, "json-output")


@get("/plans/{job:str}/json-output-redacted")
async def show_redacted(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    """Return the document from which `show` makes the text that people read."""
    return await _answer(request, job, "json-output-redacted")


async def _answer(request: TfeCall, job: str, form: PlanForm) -> Response[bytes]:
    context = request.context
    stored = await request.read(plan_json.find, job)
    found = await plan_json.read(context.objects, context.keys, context.diffs, request.user, stored, form)
    return Response(found, media_type="application/json", headers={"Cache-Control": "no-store"})
