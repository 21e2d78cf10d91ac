"""The settings of a module: its sections with what the groups above say, the change of its path and backend, and its deletion."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.groups import ApprovalRule, Group, RuleName
from terracrew.api.job_views import Placement
from terracrew.api.modules import Module, ModuleChange, ModuleRequest
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError
from terracrew.server.dashboard import field_forms, forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FieldContext, FormSection
from terracrew.server.dashboard.forms import RunnerChoices
from terracrew.server.dashboard.tree.words import cloud_names
from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import service as group_runs
from terracrew.server.jobs import module_outputs
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import module_view
from terracrew.server.state import importing
from terracrew.server.state import service as states
from terracrew.server.tree.groups import reads
from terracrew.server.tree.groups.inheritance import EffectiveRule, effective_rule
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy, service
from terracrew.wording import approval_words, module_words

HERE = "/dashboard/modules"
_RULES: tuple[RuleName, ...] = ("interrupted", "max_destroy", "max_destroy_percent", "min_approvals")
"""The approval rules that a module can have itself."""
TITLES = {
    "general": "General",
    "engine": "Engine",
    "approval": "Approvals",
    "placement": "Where its jobs run",
    "triggers": "When an output that it uses changes",
    "pull_requests": "Pull requests",
    "limits": "Limits of jobs",
    "dispatcher": "Dispatcher of jobs",
    "cloud": "Cloud logins",
}
"""The sections by the names that the fields of a module have for them, in the order of the page."""
DISPATCHERS = ("local", "docker", "kubernetes", "ecs")
_ANSWERS = [("yes", "Yes"), ("no", "No")]
_INTERRUPTED = [("ask", "Ask a person before anything is changed again"), ("retry", "Retry without asking")]
_PLACEMENT = (
    "Without any of these, Terracrew chooses among the runners that are assigned to the module or to a group that it is in, the "
    "nearest first."
)


def place_name(group: Group) -> str:
    return group.path or "the organization"


def describe_rules(above: Mapping[str, EffectiveRule]) -> dict[str, FieldContext]:
    """Return what to say about each approval rule: what applies without one here, and what has no effect."""
    return {name: _describe_rule(name, it) for name, it in above.items()} | {
        "dispatcher.name": FieldContext(offers=DISPATCHERS)
    }


def _describe_rule(name: str, it: EffectiveRule) -> FieldContext:
    value, origin = words.group_setting(name, it.value), "" if it.origin is None else place_name(it.origin)
    if name not in ("interrupted", "self_approval", "service_account_approval"):
        return FieldContext(f"If empty: {value}{f', from {origin}' if origin else ''}.")
    options = [("", f"Not set: {value}"), *(_INTERRUPTED if name == "interrupted" else _ANSWERS)]
    is_strict = it.value == "ask" or it.value is False
    weaker = "Retry" if name == "interrupted" else "Yes"
    note = f"{weaker} has no effect here, because {origin} says {value}." if origin and is_strict else ""
    return FieldContext(note, options=options)


def describe_above(above: Sequence[Group]) -> dict[str, list[str]]:
    """Return what the groups above a place say, the nearest first, by the section of the settings."""
    phrases = {
        "limits": [(each, module_words.described_limits(each.limits)) for each in above],
        "dispatcher": [(each, module_words.described_choice(each.dispatcher)) for each in above],
        "cloud": [(each, cloud_names(each.cloud)) for each in above],
    }
    return {
        section: [f"In {place_name(each)}: {', '.join(said)}" for each, said in found if said]
        for section, found in phrases.items()
    }


class ModuleSettingsPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    placement: Placement
    rules: tuple[ApprovalRule, ...]
    """The approval rules that apply to it."""
    above: dict[str, EffectiveRule]
    """The approval rules that would apply if it had none itself."""
    engines: list[str]
    runners: RunnerChoices
    unfinished_jobs: int
    jobs: int
    states: int
    resources: int | None
    """How many resources are in its current state; None where that is not known."""
    users: list[str]
    """The modules that use its outputs."""
    may_run: bool
    may_read_access: bool
    may_bring_state: bool

    @property
    def folder(self) -> str:
        return "modules/settings"

    @property
    def address(self) -> str:
        return f"{HERE}/{self.module.id}/settings"

    @property
    def settings(self) -> Module:
        return self.module

    @property
    def shown(self) -> dict[str, str]:
        return {"runner": self.placement.runner_path or ""}

    @property
    def sections(self) -> dict[str, FormSection]:
        triggers = FieldContext(options=[("manual", "Do nothing"), ("auto", "Apply it by itself")])
        context = describe_rules(self.above) | {
            "engine": FieldContext(options=[(each, words.engine(each)) for each in self.engines]),
            "runner": FieldContext(offers=self.runners.paths),
            "runner_instance_name": FieldContext(offers=self.runners.instances),
            "triggers": triggers,
        }
        now = "; ".join([approval_words.requirement(self.rules), *approval_words.described(self.rules)])
        notes = describe_above(self.groups[::-1])
        notes |= {"approval": [f"Approvals now: {now}."], "placement": [_PLACEMENT]}
        return field_forms.make_sections(ModuleRequest, TITLES, context, notes)

    @property
    def other_backend(self) -> str:
        return "own" if self.module.backend == "terracrew" else "terracrew"

    @property
    def backend_warning(self) -> str:
        """Return what somebody must know who changes the backend; empty if nothing is lost."""
        module = self.module
        return module_words.backend_warning(module.path, module.backend, self.other_backend, module.state_version)


async def read(tx: Tx, who: Principal, reference: str) -> ModuleSettingsPage:
    module = await service.find(tx, who, reference, Verb.TREE_WRITE)
    place = service.place(module)
    lineage = await reads.lineage(tx, module.group_id)
    remains = await service.count_contents(tx, module.id)
    state = await states.kept(tx, module.id)
    return ModuleSettingsPage(
        module=module,
        groups=lineage[::-1],
        placement=await module_view.placement(tx, module.id),
        rules=(await policy.of_module(tx, module.id)).rules,
        above={name: effective_rule(lineage, name) for name in _RULES},
        engines=sorted({*await service.known_engines(tx, module.organization_id), module.engine}),
        runners=await forms.offer_runners(tx, who),
        unfinished_jobs=remains.unfinished_jobs,
        jobs=remains.jobs,
        states=remains.states,
        resources=0 if state is None else await states.resource_count(tx, state.state.id),
        users=await dependencies.users(tx, who, module.id),
        may_run=await authorize.may(tx, who, Verb.JOB_RUN, place),
        may_read_access=await authorize.may(tx, who, Verb.ACCESS_READ, place),
        may_bring_state=importing.is_possible(module) and await authorize.may(tx, who, Verb.STATE_WRITE, place),
    )


class BackendForm(msgspec.Struct, frozen=True):
    backend: Literal["terracrew", "own"]


class PathForm(msgspec.Struct, frozen=True):
    to: str = ""


@get("/{module:str}/settings")
async def settings_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    return await field_forms.show_sections(request, await request.read(read, module))


@post("/{module:str}/settings/{section:str}", status_code=200)
async def change_section(request: DashboardCall, module: FromPath[str], section: FromPath[str]) -> Response[Any]:
    return await field_forms.change_section(
        request,
        section,
        ModuleChange,
        lambda: request.read(read, module),
        lambda change: _save(request, module, change),
    )


@post("/{module:str}/backend", status_code=200)
async def change_backend(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await request.read(read, module), await forms.read(request, BackendForm)
    try:
        await _save(request, module, ModuleChange(backend=form.backend))
    except (Invalid, Conflict) as error:
        return await _refused(request, before, "backend", error)
    return render.go(request, f"{HERE}/{before.module.id}")


@post("/{module:str}/move", status_code=200)
async def move(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await request.read(read, module), await forms.read(request, PathForm)
    try:
        await request.write(group_runs.move_module, before.module.id, form.to)
    except (Invalid, NotFound, Conflict, Forbidden) as error:
        changed = "path", {"to": form.to}, {"to": error.message.removeprefix("path: ")}
        return await field_forms.show_sections(request, before, changed, f"{before.folder}/path")
    return render.go(request, before.address)


@post("/{module:str}/delete", status_code=200)
async def delete(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await request.read(read, module), await forms.read(request, forms.ForceForm)
    db, keys, who, module_id = request.context.db, request.context.keys, request.user, before.module.id
    try:
        await db.write(lambda tx: module_outputs.delete_module(tx, keys, who, module_id, force=form.force))
    except Conflict as error:
        return await _refused(request, before, "delete", error)
    return render.go(request, render.group_url(before.groups[-1].path))


async def _refused(
    request: DashboardCall, before: ModuleSettingsPage, name: str, error: TerracrewError
) -> Response[Any]:
    """Show one of the two sections that have a button instead of fields, with what stands in the way."""
    changed = name, dict[str, str](), {"": error.message}
    return await field_forms.show_sections(request, before, changed, f"{before.folder}/{name}")


async def _save(request: DashboardCall, module: str, change: ModuleChange) -> None:
    await request.write(service.change, module, change, request.context.local_roots, request.context.keys)
