"""The host, the account, organizations and their queue, and groups as projects."""

from typing import Annotated

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from terracrew.api.groups import Group, NewGroup, Organization
from terracrew.api.job_views import JobListed
from terracrew.api.jobs import JobStatus
from terracrew.api.pages import Page
from terracrew.errors import Invalid, NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.runs import lists
from terracrew.server.terminals import names
from terracrew.server.tfe import json_api
from terracrew.server.tfe.context import TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes, PageNumber, PageSize
from terracrew.server.tree.groups import organization_store
from terracrew.server.tree.groups import service as groups

API_VERSION = "2.6"
"""The version of the interface. Clients refuse a host without one, and blocks of type `import` below 2.6."""
ROOT_PROJECT = "Default Project"
"""The name of the organization itself where a project is expected. The clients know a project of this name."""
MAX_COUNTED_JOBS = 200
MAX_PROJECTS = 10_000
"""How many groups below the organization are listed as projects."""


class _Entitlements(Attributes, frozen=True, kw_only=True):
    operations: bool = True
    agents: bool = True
    state_storage: bool = True
    teams: bool = False
    sentinel: bool = False
    sso: bool = False
    cost_estimation: bool = False
    audit_logging: bool = True
    run_tasks: bool = False
    global_run_tasks: bool = False
    private_run_tasks: bool = False
    private_module_registry: bool = False
    vcs_integrations: bool = False


class _OrganizationAttributes(Attributes, frozen=True, kw_only=True):
    name: str
    external_id: str
    created_at: str
    default_execution_mode: str = "remote"
    allow_force_delete_workspaces: bool = True
    permissions: dict[str, bool]


class _ProjectAttributes(Attributes, frozen=True, kw_only=True):
    name: str
    description: str = ""


class _UserAttributes(Attributes, frozen=True, kw_only=True):
    username: str
    email: str = ""
    is_service_account: bool = False


class _CapacityAttributes(Attributes, frozen=True, kw_only=True):
    pending: int
    running: int


@get("/ping", public=True, ignores_credentials=True)
async def ping(request: TfeCall) -> Response[bytes]:
    headers = {
        "TFP-API-Version": API_VERSION,
        "TFP-AppName": "Terracrew",
        "X-TFE-Version": request.context.version,
        "X-RateLimit-Limit": "100",
    }
    return Response(b"", status_code=204, headers=headers)


@get("/account/details")
async def account(request: TfeCall) -> Response[bytes]:
    who = request.user
    attributes = _UserAttributes(username=who.name, is_service_account=who.kind != "user")
    return json_api.answer(ApiResource("users", who.id, attributes))


@get("/organizations/{tenant:str}/entitlement-set")
async def entitlements(request: TfeCall, tenant: FromPath[str]) -> Response[bytes]:
    who = await request.within(tenant)
    return json_api.answer(ApiResource("entitlement-sets", who.organization_id or "", _Entitlements()))


@get("/organizations/{tenant:str}")
async def show(request: TfeCall, tenant: FromPath[str]) -> Response[bytes]:
    who = await request.within(tenant)
    found = await request.context.db.read(lambda tx: organization_store.find(tx, who.organization_id or ""))
    if found is None:
        raise NotFound(f"there is no organization `{tenant}`")
    return json_api.answer(_organization(found))


def _organization(found: Organization) -> ApiResource:
    permissions = {"can-create-workspace": True, "can-update": False, "can-destroy": False}
    attributes = _OrganizationAttributes(
        name=found.name,
        external_id=found.id,
        created_at=json_api.moment(found.created_at),
        permissions=permissions,
    )
    return ApiResource("organizations", found.name, attributes)


@get("/organizations/{tenant:str}/capacity")
async def capacity(request: TfeCall, tenant: FromPath[str]) -> Response[bytes]:
    who = await request.within(tenant)
    counted = [len((await _jobs(request, who, status)).items) for status in (JobStatus.QUEUED, JobStatus.PROCESSING)]
    attributes = _CapacityAttributes(pending=counted[0], running=counted[1])
    return json_api.answer(ApiResource("organization-capacity", tenant, attributes))


async def _jobs(request: TfeCall, who: Principal, status: JobStatus) -> Page[JobListed]:
    watch = request.context.watch.for_reader(who)
    wanted = lists.Query(status)
    return await request.context.db.read_in_background(
        lambda tx: lists.listing(tx, who, wanted, None, MAX_COUNTED_JOBS, watch)
    )


@get("/organizations/{tenant:str}/projects")
async def list_projects(
    request: TfeCall,
    tenant: FromPath[str],
    names_wanted: Annotated[str, QueryParameter(name="filter[names]")] = "",
    number: PageNumber = 1,
    size: PageSize = 20,
) -> Response[bytes]:
    who = await request.within(tenant)

    async def read(tx: Tx) -> list[Group]:
        if names_wanted:
            return [await _project(tx, who, names_wanted)]
        found: list[Group] = []
        after: str | None = None
        while len(found) < MAX_PROJECTS:
            page = await groups.listing(tx, who, None, after, json_api.MAX_PAGE_ITEMS)
            found += page.items
            after = page.next
            if after is None:
                break
        return found

    try:
        found = await request.context.db.read_in_background(read)
    except NotFound:
        found = []
    shown = [project_resource(each) for each in found[(number - 1) * size : number * size]]
    return json_api.answer_list(shown, number, size, len(found))


@get("/projects/{group:str}")
async def show_project(request: TfeCall, group: FromPath[str]) -> Response[bytes]:
    found = await request.read(groups.show, group)
    return json_api.answer(project_resource(found))


@post("/organizations/{tenant:str}/projects")
async def create_project(request: TfeCall, tenant: FromPath[str]) -> Response[bytes]:
    """Create a group. Its name is its path, with dots or slashes, and the groups above are created as well."""
    who = await request.within(tenant)
    name = json_api.text(await json_api.given(request), "name")
    if not name:
        raise Invalid.in_field("name", "a project has a name: the path of its group")
    new = NewGroup(path=names.group_path(name))
    made = await request.context.db.write(lambda tx: groups.create(tx, who, new, True))
    return json_api.answer(project_resource(made), status=201)


async def _project(tx: Tx, who: Principal, name: str) -> Group:
    return await groups.show(tx, who, "" if name == ROOT_PROJECT else names.group_path(name))


def project_resource(group: Group) -> ApiResource:
    attributes = _ProjectAttributes(name=group.path or ROOT_PROJECT, description=group.description)
    return ApiResource("projects", group.id, attributes)
