"""Modules as workspaces."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.params import FromPath, QueryParameter

from terracrew.api.locks import Lock
from terracrew.api.modules import CommandLine, Module, ModuleChange, NewModule
from terracrew.errors import Invalid, NotFound
from terracrew.protocol.spec import ArchiveSource
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import module_outputs
from terracrew.server.jobs import service as jobs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.terminals import names, seeing
from terracrew.server.tfe import json_api
from terracrew.server.tfe.context import TfeCall
from terracrew.server.tfe.json_api import ApiResource, Attributes, GivenResource, PageNumber, PageSize
from terracrew.server.tree.groups import organization_store
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.modules import service as modules

MAX_LISTED = 10_000
"""How many workspaces are listed."""
_EXECUTION_MODES: dict[CommandLine, str] = {"runners": "remote", "terminal": "local"}
_MODES: dict[str, CommandLine] = {"remote": "runners", "agent": "runners", "local": "terminal"}


class _Permissions(Attributes, frozen=True, kw_only=True):
    can_update: bool
    can_destroy: bool
    can_force_delete: bool
    can_queue_run: bool
    can_queue_apply: bool
    can_queue_destroy: bool
    can_lock: bool
    can_unlock: bool
    can_force_unlock: bool
    can_read_settings: bool
    can_update_variable: bool
    can_read_state_versions: bool
    can_read_state_outputs: bool
    can_create_state_versions: bool
    can_read_variable: bool = True
    can_manage_run_tasks: bool = False


class _WorkspaceAttributes(Attributes, frozen=True, kw_only=True):
    name: str
    created_at: str
    updated_at: str
    description: str
    execution_mode: str
    operations: bool
    locked: bool
    permissions: _Permissions
    actions: dict[str, bool]
    tag_names: list[str]
    terraform_version: str
    working_directory: str
    resource_count: int
    auto_apply: bool = False
    can_queue_destroy_plan: bool = True
    allow_destroy_plan: bool = True
    environment: str = "default"
    file_triggers_enabled: bool = False
    queue_all_runs: bool = False
    speculative_enabled: bool = True
    structured_run_output_enabled: bool = False
    global_remote_state: bool = False
    source: str = "tfe-api"
    vcs_repo: None = None


async def resource(tx: Tx, who: Principal, module: Module) -> ApiResource:
    """Return the workspace that a module is, as the caller sees it."""
    may = await authorize.visible_by_verb(
        tx,
        who,
        Verb.TREE_READ,
        Verb.TREE_WRITE,
        Verb.JOB_RUN,
        Verb.STATE_READ,
        Verb.STATE_WRITE,
    )
    place = modules.place(module)
    allowed = {verb: seen.covers(place) for verb, seen in may.items()}
    lock = await jobs.lock(tx, module.id)
    organization = await organization_store.find(tx, module.organization_id)
    attributes = _attributes(module, lock, allowed)
    relationships = {
        "organization": json_api.to("organizations", organization.name if organization else module.organization_id),
        "project": json_api.to("projects", module.group_id),
        "current-run": json_api.to("runs", names.run_id(lock.job_id) if lock is not None and lock.job_id else None),
    }
    return ApiResource("workspaces", module.id, attributes, relationships)


def _attributes(module: Module, lock: Lock | None, allowed: dict[Verb, bool]) -> _WorkspaceAttributes:
    can_run = allowed[Verb.JOB_RUN] and allowed[Verb.TREE_WRITE]  # a run brings files and variables of its own
    created_at = json_api.moment(module.created_at)
    return _WorkspaceAttributes(
        name=names.workspace(module.path),
        created_at=created_at,
        updated_at=created_at,
        description=module.description,
        execution_mode=_EXECUTION_MODES[module.command_line],
        operations=module.command_line == "runners",
        locked=lock is not None,
        permissions=_Permissions(
            can_update=allowed[Verb.TREE_WRITE],
            can_destroy=allowed[Verb.TREE_WRITE],
            can_force_delete=allowed[Verb.TREE_WRITE],
            can_queue_run=can_run,
            can_queue_apply=can_run,
            can_queue_destroy=can_run,
            can_lock=allowed[Verb.STATE_WRITE],
            can_unlock=allowed[Verb.STATE_WRITE],
            can_force_unlock=allowed[Verb.STATE_WRITE],
            can_read_settings=True,
            can_update_variable=allowed[Verb.TREE_WRITE],
            can_read_state_versions=allowed[Verb.STATE_READ],
            can_read_state_outputs=allowed[Verb.STATE_READ],
            can_create_state_versions=allowed[Verb.STATE_WRITE],
        ),
        actions={"is-destroyable": allowed[Verb.TREE_WRITE]},
        tag_names=[each for each in module.labels if "=" not in each],
        terraform_version=module.engine_version or "latest",
        working_directory=module.source.subdirectory,
        resource_count=0,
    )


async def find(tx: Tx, who: Principal, workspace_id: str, verb: Verb) -> Module:
    return await modules.find(tx, who, workspace_id, verb, NotFound(f"there is no workspace {workspace_id[:50]}"))


async def answer(request: TfeCall, who: Principal, module_id: str, status: int = 200) -> Response[bytes]:
    async def read(tx: Tx) -> ApiResource:
        return await resource(tx, who, await find(tx, who, module_id, request.reading))

    return json_api.answer(await request.context.db.read(read), status=status)


@get("/organizations/{tenant:str}/workspaces/{workspace:str}")
async def show_named(request: TfeCall, tenant: FromPath[str], workspace: FromPath[str]) -> Response[bytes]:
    who = await request.within(tenant)

    async def read(tx: Tx) -> ApiResource:
        found = await modules.find(tx, who, names.module_path(workspace), request.reading, names.unseen(workspace))
        return await resource(tx, who, found)

    return json_api.answer(await request.context.db.read(read))


@get("/workspaces/{module:str}")
async def show(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    return await answer(request, request.user, module)


@get("/organizations/{tenant:str}/workspaces")
async def list_workspaces(
    request: TfeCall,
    tenant: FromPath[str],
    search_name: Annotated[str, QueryParameter(name="search[name]")] = "",
    search_tags: Annotated[str, QueryParameter(name="search[tags]")] = "",
    project: Annotated[str, QueryParameter(name="filter[project][id]")] = "",
    number: PageNumber = 1,
    size: PageSize = 20,
) -> Response[bytes]:
    """List the workspaces that the caller may see: with all of these tags, with a part of a name, in a project."""
    who = await request.within(tenant)
    size = min(size, json_api.MAX_PAGE_ITEMS)
    wanted = {each.strip() for each in search_tags.split(",") if each.strip()} | _bound(request)

    async def read(tx: Tx) -> tuple[list[ApiResource], int]:
        group = (await groups.show(tx, who, project)).path if project else None
        found: list[Module] = []
        after: str | None = None
        while len(found) < MAX_LISTED:
            page = await modules.listing(tx, who, group, True, after, json_api.MAX_PAGE_ITEMS)
            found += [
                each for each in page.items if wanted <= set(each.labels) and search_name in names.workspace(each.path)
            ]
            after = page.next
            if after is None:
                break
        shown = found[(number - 1) * size : number * size]
        return [await resource(tx, who, each) for each in shown], len(found)

    items, total = await request.context.db.read_in_background(read)
    return json_api.answer_list(items, number, size, total)


def _bound(request: TfeCall) -> set[str]:
    """Return the labels with a value that a request filters by: `filter[tagged][0][key]=app&filter[tagged][0][value]=web`."""
    keys = {name[:-5]: value for name, value in request.query_params.items() if name.endswith("[key]")}
    values = {name[:-7]: value for name, value in request.query_params.items() if name.endswith("[value]")}
    return {f"{key}={values[name]}" if values.get(name) else key for name, key in keys.items()}


@post("/organizations/{tenant:str}/workspaces")
async def create(request: TfeCall, tenant: FromPath[str]) -> Response[bytes]:
    """Create a module. Its files come with the first upload; its engine is that of the command line that asks."""
    who = await request.within(tenant)
    given = await json_api.given(request)
    project_id = json_api.related(given, "project")
    labels = [json_api.text(each, "name") for each in json_api.related_list(given, "tags")]
    labels += _labels_of(json_api.related_list(given, "tag-bindings"))
    mode = json_api.text(given, "execution-mode")
    is_local = json_api.flag(given, "operations", default=True) is False

    async def work(tx: Tx) -> Module:
        project = (await groups.show(tx, who, project_id)).path if project_id else ""
        new = NewModule(
            path=names.new_module_path(json_api.text(given, "name"), project),
            source=ArchiveSource("", json_api.text(given, "working-directory").strip("/")),
            engine=_engine(request),
            description=json_api.text(given, "description"),
            command_line=_MODES.get(mode, "terminal" if is_local else "runners"),
            labels=sorted({*labels} - {""}),
        )
        return await modules.create(tx, who, new, (), request.context.keys)

    try:
        made = await request.context.db.write(work)
    except NotFound as error:
        parent = names.module_path(json_api.text(given, "name")).rpartition("/")[0]
        if (await authorize.visible(request.context.db, who, Verb.TREE_READ)).is_nothing:
            raise
        # the clients say of a 404 only that something was not found
        raise Invalid(
            f"{error.message}: create the group first (`terracrew group create {parent} --parents`)"
        ) from None
    return await answer(request, who, made.id, 201)


def _engine(request: TfeCall) -> str:
    return "tofu" if "opentofu" in request.headers.get("User-Agent", "").lower() else "terraform"


def _labels_of(bindings: Iterable[GivenResource]) -> list[str]:
    found = [(json_api.text(each, "key"), json_api.text(each, "value")) for each in bindings]
    return [f"{key}={value}" if value else key for key, value in found]


@patch("/workspaces/{module:str}")
async def change(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """Change what a command line may change. The version of its engine is not taken over: the module says which one its jobs run."""
    given = await json_api.given(request)
    await request.read(find, module, Verb.TREE_WRITE)
    asked: dict[str, object] = {}
    if "description" in given.attributes:
        asked["description"] = json_api.text(given, "description")
    if (mode := json_api.text(given, "execution-mode")) in _MODES:
        asked["command_line"] = _MODES[mode]
    if asked:
        wanted = msgspec.convert(asked, ModuleChange)
        await request.write(modules.change, module, wanted, (), request.context.keys)
    return await answer(request, request.user, module)


@post("/workspaces/{module:str}/relationships/tags")
async def add_tags(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    labels = [json_api.text(each, "name") for each in await json_api.given_list(request)]
    await request.write(_add_labels, module, labels, request.context.keys)
    return json_api.done(204)


@get("/workspaces/{module:str}/tag-bindings")
async def list_bindings(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    found = await request.read(find, module, request.reading)
    return json_api.answer_list(_bindings(found), 1, json_api.MAX_PAGE_ITEMS, len(found.labels))


@patch("/workspaces/{module:str}/tag-bindings")
async def add_bindings(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    labels = _labels_of(await json_api.given_list(request))
    found = await request.write(_add_labels, module, labels, request.context.keys)
    return json_api.answer_list(_bindings(found), 1, json_api.MAX_PAGE_ITEMS, len(found.labels))


def _bindings(module: Module) -> list[ApiResource]:
    pairs = [each.partition("=") for each in module.labels]
    return [ApiResource("tag-bindings", f"{module.id}.{key}", {"key": key, "value": value}) for key, _, value in pairs]


async def _add_labels(tx: Tx, who: Principal, module_id: str, labels: list[str], keys: Keyring) -> Module:
    found = await find(tx, who, module_id, Verb.TREE_WRITE)
    wanted = sorted({*found.labels, *labels} - {""})
    return await modules.change(tx, who, found.id, ModuleChange(labels=wanted), (), keys)


@post("/workspaces/{module:str}/actions/safe-delete")
async def safe_delete(request: TfeCall, module: FromPath[str]) -> Response[bytes]:
    """Delete a module whose state has no resources."""
    found = await request.read(find, module, Verb.TREE_WRITE)
    await _delete(request, request.user, found, is_forced=False)
    return json_api.done(204)


@post("/organizations/{tenant:str}/workspaces/{workspace:str}/actions/safe-delete")
async def safe_delete_named(request: TfeCall, tenant: FromPath[str], workspace: FromPath[str]) -> Response[bytes]:
    who = await request.within(tenant)
    module = await request.context.db.read(
        lambda tx: modules.find(tx, who, names.module_path(workspace), Verb.TREE_WRITE, names.unseen(workspace))
    )
    await _delete(request, who, module, is_forced=False)
    return json_api.done(204)


@delete("/organizations/{tenant:str}/workspaces/{workspace:str}", status_code=204)
async def force_delete_named(request: TfeCall, tenant: FromPath[str], workspace: FromPath[str]) -> None:
    who = await request.within(tenant)
    module = await request.context.db.read(
        lambda tx: modules.find(tx, who, names.module_path(workspace), Verb.TREE_WRITE, names.unseen(workspace))
    )
    await _delete(request, who, module, is_forced=True)


@delete("/workspaces/{module:str}", status_code=204)
async def force_delete(request: TfeCall, module: FromPath[str]) -> None:
    found = await request.read(find, module, Verb.TREE_WRITE)
    await _delete(request, request.user, found, is_forced=True)


async def _delete(request: TfeCall, who: Principal, module: Module, *, is_forced: bool) -> None:
    keys = request.context.keys
    if is_forced:
        await request.context.db.write(lambda tx: module_outputs.delete_module(tx, keys, who, module.id, force=True))
    else:
        await request.context.db.write(lambda tx: seeing.delete_if_empty(tx, keys, who, module.id))
