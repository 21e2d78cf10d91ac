"""The settings of a module: what its sections show and change, the change of its path and backend, and its deletion."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from msgspec import UNSET

from terracrew.api.groups import Group, RuleName
from terracrew.api.job_views import Placement
from terracrew.api.modules import Module, ModuleChange
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError, TooLarge
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.forms import FormSection, RunnerChoices
from terracrew.server.dashboard.tree import clouds, dispatchers, limits
from terracrew.server.dashboard.tree.dispatchers import DispatcherFields
from terracrew.server.dashboard.tree.limits import LimitsFields
from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import service as group_runs
from terracrew.server.jobs import module_deletion
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import placement
from terracrew.server.state import importing
from terracrew.server.state import service as states
from terracrew.server.tree.groups import reads
from terracrew.server.tree.groups.inheritance import EffectiveRule, effective_rule
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import policy, removal, service
from terracrew.wording import backend_words, durations

HERE = "/dashboard/modules"
_FOLDER = "modules/settings"
_RULES: tuple[RuleName, ...] = ("interrupted", "max_destroy", "max_destroy_percent", "min_approvals")
"""The approval rules that a module can have itself."""


class ModuleSettingsPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    placement: Placement
    rules: list[dict[str, Any]]
    """The approval rules that apply to it, as the API shows them."""
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
    def other_backend(self) -> str:
        return "own" if self.module.backend == "terracrew" else "terracrew"

    @property
    def backend_warning(self) -> str:
        """Return what somebody must know who changes the backend; empty if nothing is lost."""
        module = self.module
        return backend_words.warning(module.path, module.backend, self.other_backend, module.state_version)


async def read(tx: Tx, who: Principal, reference: str) -> ModuleSettingsPage:
    module = await service.find(tx, who, reference, Verb.TREE_WRITE)
    place = service.place(module)
    lineage = await reads.lineage(tx, module.group_id)
    remains = await removal.kept(tx, module.id)
    state = await states.kept(tx, module.id)
    return ModuleSettingsPage(
        module=module,
        groups=lineage[::-1],
        placement=await placement.of_module(tx, module.id),
        rules=msgspec.to_builtins((await policy.of_module(tx, module.id)).rules),
        above={name: effective_rule(lineage, name) for name in _RULES},
        engines=sorted({*await service.known_engines(tx, module.organization_id), module.engine}),
        runners=await forms.offer_runners(tx, who),
        unfinished_jobs=remains.unfinished_jobs,
        jobs=remains.jobs,
        states=remains.states,
        resources=0 if state is None else await states.resource_count(tx, state.state.id),
        users=await dependencies.users(tx, who, module.id),
        may_run=(await authorize.visible(tx, who, Verb.JOB_RUN)).covers(place),
        may_read_access=(await authorize.visible(tx, who, Verb.ACCESS_READ)).covers(place),
        may_bring_state=importing.is_possible(module)
        and (await authorize.visible(tx, who, Verb.STATE_WRITE)).covers(place),
    )


class BackendForm(msgspec.Struct, frozen=True):
    backend: Literal["terracrew", "own"]


class PathForm(msgspec.Struct, frozen=True):
    to: str = ""


class DeletionForm(msgspec.Struct, frozen=True):
    force: bool = False
    """Whether its jobs and states are deleted, too, and it is deleted although others use its outputs."""


_BETWEEN_TAGS = re.compile(r"[,\s]+")
_FIELDS = {"approval_seconds": "approval_time", "runner_instance_name": "instance"}
"""The fields of the forms that have another name than those of a module."""


class GeneralForm(msgspec.Struct, frozen=True):
    description: str = ""


class EngineForm(msgspec.Struct, frozen=True):
    engine: str = ""
    """Empty leaves it as it is."""
    engine_version: str = ""
    is_fresh: bool = False


class ApprovalsForm(msgspec.Struct, frozen=True):
    """The values as they were typed. An empty number requires nothing here; the groups above may."""

    needs_approval: bool = False
    min_approvals: str = ""
    approval_time: str = ""
    max_destroy: str = ""
    max_destroy_percent: str = ""


class InterruptionForm(msgspec.Struct, frozen=True):
    interrupted: str = ""
    """Empty means as its groups say."""


class RunnersForm(msgspec.Struct, frozen=True):
    """The values as they were typed. An empty runner or instance means any."""

    runner: str = ""
    instance: str = ""
    tags: str = ""
    priority: str = ""


class TriggersForm(msgspec.Struct, frozen=True):
    triggers: str = "manual"


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _change(**values: Any) -> ModuleChange:
    return forms.convert(values, ModuleChange, _FIELDS)


def _approvals(page: ModuleSettingsPage) -> ApprovalsForm:
    module = page.module
    return ApprovalsForm(
        module.needs_approval,
        _number(module.min_approvals),
        durations.written(module.approval_seconds),
        _number(module.max_destroy),
        _number(module.max_destroy_percent),
    )


def _approvals_from_form(form: ApprovalsForm, _: ModuleSettingsPage) -> ModuleChange:
    seconds = durations.parse(form.approval_time)
    if seconds is None:
        raise Invalid(f"{form.approval_time.strip()!r} is not a duration: write 30m, 24h or 7d", field="approval_time")
    if not 60 <= seconds <= 365 * 86_400:
        raise Invalid("a plan waits between 60s and 365d", field="approval_time")
    return _change(
        needs_approval=form.needs_approval,
        min_approvals=form.min_approvals.strip() or None,
        approval_seconds=seconds,
        max_destroy=form.max_destroy.strip() or None,
        max_destroy_percent=form.max_destroy_percent.strip() or None,
    )


def _runners_from_form(form: RunnersForm, page: ModuleSettingsPage) -> ModuleChange:
    """Return the change that makes the placement of a module what the form says.

    A runner that was not changed is left out: it may have been removed, and the module then stays pinned to it.
    """
    runner = form.runner.strip()
    change = _change(
        runner_instance_name=form.instance.strip() or None,
        tags=[tag for tag in _BETWEEN_TAGS.split(form.tags) if tag],
        priority=form.priority.strip() or "0",
    )
    is_same_runner = runner == (page.placement.runner_path or "")
    return msgspec.structs.replace(change, runner=UNSET if is_same_runner else runner or None)


def _engine_from_form(form: EngineForm, _: ModuleSettingsPage) -> ModuleChange:
    given = {"engine": form.engine.strip()} if form.engine.strip() else {}
    return _change(**given, engine_version=form.engine_version.strip(), is_fresh=form.is_fresh)


SECTIONS: Mapping[str, FormSection[ModuleSettingsPage, ModuleChange]] = {
    "general": FormSection(
        "Description",
        GeneralForm,
        lambda page: GeneralForm(page.module.description),
        lambda form, _: _change(description=form.description.strip()),
    ),
    "engine": FormSection(
        "Engine",
        EngineForm,
        lambda page: EngineForm(page.module.engine, page.module.engine_version, page.module.is_fresh),
        _engine_from_form,
    ),
    "approvals": FormSection("Approvals", ApprovalsForm, _approvals, _approvals_from_form),
    "interruption": FormSection(
        "After an interruption",
        InterruptionForm,
        lambda page: InterruptionForm(page.module.interrupted or ""),
        lambda form, _: _change(interrupted=form.interrupted or None),
    ),
    "runners": FormSection(
        "Where its jobs run",
        RunnersForm,
        lambda page: RunnersForm(
            page.placement.runner_path or "",
            page.placement.runner_instance_name or "",
            ", ".join(page.placement.tags),
            str(page.module.priority),
        ),
        _runners_from_form,
    ),
    "triggers": FormSection(
        "When an output that it uses changes",
        TriggersForm,
        lambda page: TriggersForm(page.module.triggers),
        lambda form, _: _change(triggers=form.triggers),
    ),
    "limits": FormSection(
        "Limits of jobs",
        LimitsFields,
        lambda page: limits.to_form(page.module.limits),
        lambda form, _: ModuleChange(limits=limits.from_form(form)),
    ),
    "dispatcher": FormSection(
        "Dispatcher of jobs",
        DispatcherFields,
        lambda page: dispatchers.to_form(page.module.dispatcher),
        lambda form, _: ModuleChange(dispatcher=dispatchers.from_form(form)),
    ),
    "clouds": FormSection(
        "Cloud logins",
        clouds.CloudFields,
        lambda page: clouds.to_form(page.module.cloud),
        lambda form, _: ModuleChange(cloud=clouds.from_form(form)),
    ),
}
"""The sections by their names, in the order of the page."""


@get("/{module:str}/settings")
async def settings_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await _read(request, module)
    return await forms.show_sections(request, _FOLDER, SECTIONS, found, _address(found))


@post("/{module:str}/settings/{section:str}", status_code=200)
async def change_section(request: DashboardCall, module: FromPath[str], section: FromPath[str]) -> Response[Any]:
    found, before = forms.find_section(SECTIONS, section), await _read(request, module)
    form = await forms.read(request, found.form)
    try:
        await _save(request, before, found.from_form(form, before))
    except (Invalid, NotFound, Conflict, TooLarge) as error:
        changed = section, form, _placed(found, error)
        return await forms.show_sections(request, _FOLDER, SECTIONS, before, _address(before), changed)
    after = await _read(request, module)
    return await forms.show_saved(request, _FOLDER, SECTIONS, after, _address(after), section)


@post("/{module:str}/backend", status_code=200)
async def change_backend(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, BackendForm)
    try:
        await _save(request, before, ModuleChange(backend=form.backend))
    except (Invalid, Conflict) as error:
        return await _refused(request, before, "backend", error)
    return render.go(request, f"{HERE}/{before.module.id}")


@post("/{module:str}/move", status_code=200)
async def move(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, PathForm)
    context, who, module_id = request.context, request.user, before.module.id
    try:
        await context.db.write(lambda tx: group_runs.move_module(tx, who, module_id, form.to))
    except (Invalid, NotFound, Conflict, Forbidden) as error:
        wrong = "path", form, {"to": error.message.removeprefix("path: ")}
        template = f"{_FOLDER}/path.html"
        return await forms.show_sections(request, _FOLDER, SECTIONS, before, _address(before), wrong, template)
    return render.go(request, _address(before))


@post("/{module:str}/delete", status_code=200)
async def delete(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    before, form = await _read(request, module), await forms.read(request, DeletionForm)
    context, who, module_id = request.context, request.user, before.module.id
    try:
        await context.db.write(lambda tx: module_deletion.delete(tx, context.keys, who, module_id, force=form.force))
    except Conflict as error:
        return await _refused(request, before, "delete", error)
    return render.go(request, render.group_url(before.groups[-1].path))


async def _refused(
    request: DashboardCall, before: ModuleSettingsPage, name: str, error: TerracrewError
) -> Response[Any]:
    """Show one of the two sections that have a button instead of fields, with what stands in the way."""
    wrong = name, None, {"": error.message}
    return await forms.show_sections(
        request, _FOLDER, SECTIONS, before, _address(before), wrong, f"{_FOLDER}/{name}.html"
    )


def _address(found: ModuleSettingsPage) -> str:
    return f"{HERE}/{found.module.id}/settings"


async def _read(request: DashboardCall, module: str) -> ModuleSettingsPage:
    return await request.context.db.read_in_background(lambda tx: read(tx, request.user, module))


async def _save(request: DashboardCall, before: ModuleSettingsPage, change: ModuleChange) -> None:
    context, who, module_id = request.context, request.user, before.module.id
    await context.db.write(lambda tx: service.change(tx, who, module_id, change, context.local_roots, context.keys))


def _placed(section: FormSection[ModuleSettingsPage, ModuleChange], error: TerracrewError) -> dict[str, str]:
    """Return the message beside its field. Of all fields, only the runner names something that may not be found."""
    return {"runner": error.message} if isinstance(error, NotFound) else forms.name_field(section, error)


handlers = [settings_page, change_section, change_backend, move, delete]
