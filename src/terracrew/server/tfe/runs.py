"""Jobs as runs, with a plan and an apply each."""

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery
from litestar.response import Redirect

from terracrew.api.job_views import JobListed
from terracrew.api.jobs import JobStatus
from terracrew.api.plan_options import Addresses
from terracrew.errors import Invalid
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import lists
from terracrew.server.terminals import names, seeing, statuses, warnings
from terracrew.server.terminals import service as terminals
from terracrew.server.terminals.model import Phase
from terracrew.server.terminals.service import RunWanted
from terracrew.server.terminals.statuses import SeenRun
from terracrew.server.tfe import json_api, workspaces
from terracrew.server.tfe.context import TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes, GivenResource, PageNumber, PageSize
from terracrew.server.tree.modules import service as modules

MAX_VARIABLES = 1_000
_NO_GENERATION = (
    "a runner writes no configuration (-generate-config-out). Let the module plan at the prompt for it: "
    "`terracrew module update MODULE --command-line terminal`, and back with `--command-line runners`"
)


class _RunAttributes(Attributes, frozen=True, kw_only=True):
    status: str
    created_at: str
    message: str
    has_changes: bool
    is_destroy: bool
    auto_apply: bool
    plan_only: bool
    refresh: bool
    refresh_only: bool
    save_plan: bool
    target_addrs: list[str]
    replace_addrs: list[str]
    actions: dict[str, bool]
    permissions: dict[str, bool]
    terraform_version: str
    position_in_queue: int = 0
    allow_empty_apply: bool = False
    source: str = "terraform+cloud"
    trigger_reason: str = "manual"


class _PhaseAttributes(Attributes, frozen=True, kw_only=True):
    status: str
    log_read_url: str
    resource_additions: int
    resource_changes: int
    resource_destructions: int
    resource_imports: int


class _PlanAttributes(_PhaseAttributes, frozen=True, kw_only=True):
    has_changes: bool
    generated_configuration: bool = False


class _Variable(msgspec.Struct, frozen=True):
    key: str
    value: str


class _EventAttributes(Attributes, frozen=True, kw_only=True):
    action: str
    description: str
    created_at: str


async def _seen(request: TfeCall, run: str, verb: Verb = Verb.JOB_READ) -> SeenRun:
    context = request.context
    return await seeing.seen(context.db, context.transcripts, context.watch, request.user, run, verb)


def run_resource(found: SeenRun, allowed: dict[Verb, bool]) -> ApiResource:
    job, run = found.job, found.run
    may_run, may_cancel = allowed[Verb.JOB_RUN] and allowed[Verb.TREE_WRITE], allowed[Verb.JOB_CANCEL]
    is_confirmable, is_cancelable = statuses.is_confirmable(found), statuses.is_cancelable(found)
    attributes = _RunAttributes(
        status=statuses.status(found),
        created_at=json_api.moment(job.created_at),
        message=run.message,
        has_changes=statuses.has_changes(found),
        is_destroy=job.only_destroys,
        auto_apply=run.is_automatic,
        plan_only=run.is_plan_only,
        refresh=job.refresh,
        refresh_only=job.is_refresh_only,
        save_plan=run.is_saved,
        target_addrs=job.targets,
        replace_addrs=job.replace,
        actions={
            "is-confirmable": is_confirmable,
            "is-discardable": is_confirmable,
            "is-cancelable": is_cancelable,
            "is-force-cancelable": is_cancelable and job.cancel_mode is not None,
        },
        permissions={
            "can-apply": may_run,
            "can-cancel": may_cancel,
            "can-discard": may_run,
            "can-force-cancel": may_cancel,
            "can-force-execute": False,
        },
        terraform_version=job.engine_version or "latest",
    )
    relationships = {
        "workspace": json_api.to("workspaces", job.module_id),
        "plan": json_api.to("plans", job.id),
        "apply": json_api.to("applies", job.id),
        "configuration-version": json_api.to("configuration-versions", run.configuration_version_id or None),
    }
    return ApiResource("runs", names.run_id(job.id), attributes, relationships)


async def _allowed(tx: Tx, who: Principal, module_id: str) -> dict[Verb, bool]:
    module = await modules.find(tx, who, module_id, Verb.JOB_READ)
    may = await authorize.visible_by_verb(tx, who, Verb.JOB_RUN, Verb.TREE_WRITE, Verb.JOB_CANCEL)
    return {verb: each.covers(modules.place(module)) for verb, each in may.items()}


async def _answer(request: TfeCall, found: SeenRun, include: str = "", status: int = 200) -> Response[bytes]:
    who, wanted = request.user, {each.strip() for each in include.split(",")}

    async def read(tx: Tx) -> tuple[dict[Verb, bool], list[ApiResource]]:
        allowed = await _allowed(tx, who, found.job.module_id)
        if "workspace" not in wanted:
            return allowed, []
        module = await workspaces.find(tx, who, found.job.module_id, Verb.JOB_READ)
        return allowed, [await workspaces.resource(tx, who, module)]

    allowed, included = await request.context.db.read(read)
    if "plan" in wanted:
        included.append(_plan(request, found))
    return json_api.answer(run_resource(found, allowed), status=status, included=included)


@post("/runs")
async def create(request: TfeCall) -> Response[bytes]:
    given = await json_api.given(request)
    module_id = json_api.related(given, "workspace")
    if not module_id:
        raise Invalid("a run needs the relationship `workspace`")
    await request.enter(module_id)
    if json_api.flag(given, "allow-config-generation"):
        raise Invalid.in_field("allow-config-generation", _NO_GENERATION)
    wanted = RunWanted(
        module_id=module_id,
        version_id=json_api.related(given, "configuration-version"),
        is_automatic=json_api.flag(given, "auto-apply"),
        is_saved=json_api.flag(given, "save-plan"),
        is_plan_only=json_api.flag(given, "plan-only"),
        is_destroy=json_api.flag(given, "is-destroy"),
        is_refresh_only=json_api.flag(given, "refresh-only"),
        refresh=json_api.flag(given, "refresh", default=True),
        targets=_addresses(given, "target-addrs"),
        replace=_addresses(given, "replace-addrs"),
        message=json_api.text(given, "message"),
        variables=_variables(given),
    )
    job = await terminals.start(request.context.tools, request.user, wanted)
    return await _answer(request, await _seen(request, job.id), status=201)


def _addresses(given: GivenResource, name: str) -> list[str]:
    try:
        return msgspec.convert(given.attributes.get(name) or [], Addresses)
    except msgspec.ValidationError as error:
        raise Invalid.in_field(name, str(error)) from None


def _variables(given: GivenResource) -> dict[str, str]:
    """Return the variables of a run: their names, and their values as literals."""
    try:
        found = msgspec.convert(given.attributes.get("variables") or [], list[_Variable])
    except msgspec.ValidationError as error:
        raise Invalid.in_field("variables", str(error)) from None
    if len(found) > MAX_VARIABLES:
        raise Invalid.in_field("variables", f"{len(found):,} are too many: at most {MAX_VARIABLES:,} are accepted")
    return {each.key: each.value for each in found}


@get("/runs/{job:str}")
async def show(request: TfeCall, job: FromPath[str], include: FromQuery[str] = "") -> Response[bytes]:
    return await _answer(request, await _seen(request, job), include)


@get("/runs/{job:str}/run-events")
async def list_events(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    """What a person should know before the plan of a run: the clients print these as warnings."""
    found = await _seen(request, job)

    async def read(tx: Tx) -> list[str]:
        module = await modules.find(tx, request.user, found.job.module_id, Verb.JOB_READ)
        return await warnings.before_plan(tx, module, found.run, request.context.url)

    texts = await request.context.db.read_in_background(read)
    at = json_api.moment(found.job.created_at)
    events = [
        ApiResource(
            "run-events",
            f"{found.job.id}.{number}",
            _EventAttributes(action=warnings.ACTION, description=each, created_at=at),
        )
        for number, each in enumerate(texts, 1)
    ]
    return json_api.answer_list(events, 1, json_api.MAX_PAGE_ITEMS, len(events))


@get("/workspaces/{module:str}/runs")
async def list_runs(
    request: TfeCall, module: FromPath[str], number: PageNumber = 1, size: PageSize = 20
) -> Response[bytes]:
    """List the newest runs of a workspace."""
    who, size = request.user, min(size, json_api.MAX_PAGE_ITEMS)
    watch = request.context.watch.for_reader(who)

    async def read(tx: Tx) -> list[str]:
        found = await workspaces.find(tx, who, module, Verb.JOB_READ)
        return [
            each.id for each in (await lists.listing(tx, who, lists.Query(module=found.id), None, size, watch)).items
        ]

    ids = await request.context.db.read_in_background(read) if number == 1 else []
    found = [await _seen(request, each) for each in ids]
    allowed = await request.read(_allowed, module)
    return json_api.answer_list([run_resource(each, allowed) for each in found], number, size, len(found))


@get("/organizations/{tenant:str}/runs/queue")
async def queue(
    request: TfeCall, tenant: FromPath[str], number: PageNumber = 1, size: PageSize = 20
) -> Response[bytes]:
    """List the runs of an organization that wait, as far as the caller may see them, the oldest first."""
    who, size = await request.within(tenant), min(size, json_api.MAX_PAGE_ITEMS)
    watch = request.context.watch.for_reader(who)
    wanted = lists.Query(JobStatus.QUEUED)
    found = await request.context.db.read_in_background(
        lambda tx: lists.listing(tx, who, wanted, None, json_api.MAX_PAGE_ITEMS, watch)
    )
    waiting = list(reversed(found.items))
    resources = [_queued(each, position) for position, each in enumerate(waiting, 1)]
    return json_api.answer_list(resources[(number - 1) * size : number * size], number, size, len(resources))


def _queued(job: JobListed, position: int) -> ApiResource:
    attributes = {"status": "plan_queued", "position-in-queue": position, "is-destroy": job.only_destroys}
    return ApiResource(
        "runs", names.run_id(job.id), attributes, {"workspace": json_api.to("workspaces", job.module_id)}
    )


@get("/plans/{job:str}")
async def show_plan(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    return json_api.answer(_plan(request, await _seen(request, job)))


def _plan(request: TfeCall, found: SeenRun) -> ApiResource:
    count = statuses.counts(found.job.plan)
    attributes = _PlanAttributes(
        status=statuses.plan_status(found),
        has_changes=statuses.has_changes(found),
        log_read_url=_log_address(request, found, "plan"),
        resource_additions=count.additions,
        resource_changes=count.changes,
        resource_destructions=count.destructions,
        resource_imports=count.imports,
    )
    return ApiResource("plans", found.job.id, attributes)


@get("/applies/{job:str}")
async def show_apply(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    found = await _seen(request, job)
    count = statuses.counts((found.applying or found.job).plan)
    address = _log_address(request, found, "apply")
    attributes = _PhaseAttributes(
        status=statuses.apply_status(found),
        log_read_url=address,
        resource_additions=count.additions,
        resource_changes=count.changes,
        resource_destructions=count.destructions,
        resource_imports=count.imports,
    )
    return json_api.answer(ApiResource("applies", found.job.id, attributes))


def _log_address(request: TfeCall, found: SeenRun, phase: Phase) -> str:
    return request.context.address(request.user, phase, found.job.id)


@post("/runs/{job:str}/actions/apply", status_code=202)
async def confirm(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    await terminals.confirm(request.context.tools, request.user, await _seen(request, job, Verb.JOB_RUN))
    return json_api.done(202)


@post("/runs/{job:str}/actions/discard", status_code=202)
async def discard(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    await terminals.discard(request.context.tools, request.user, await _seen(request, job, Verb.JOB_RUN))
    return json_api.done(202)


@post("/runs/{job:str}/actions/cancel", status_code=202)
async def cancel(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    await terminals.cancel(request.context.tools, request.user, await _seen(request, job, Verb.JOB_CANCEL))
    return json_api.done(202)


@post("/runs/{job:str}/actions/force-cancel", status_code=202)
async def force_cancel(request: TfeCall, job: FromPath[str]) -> Response[bytes]:
    await terminals.cancel(
        request.context.tools, request.user, await _seen(request, job, Verb.JOB_CANCEL), is_forced=True
    )
    return json_api.done(202)


@get("/app/{tenant:str}/{workspace:str}/runs/{job:str}", public=True)
async def page(job: FromPath[str]) -> Redirect:
    """Lead to the page of a job: the clients print this address for people, and nobody can change it."""
    return Redirect(f"/dashboard/jobs/{names.job_id(job)}", status_code=303)
