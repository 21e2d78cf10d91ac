"""The form that creates a module in a group, from a source of any kind that a form can describe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from litestar import Response, get, post
from litestar.params import FromQuery

from terracrew.api import fields
from terracrew.api.modules import Module, ModuleChange, ModuleRequest, NewModule
from terracrew.api.place_settings import PlaceSettings
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TerracrewError, TooLarge
from terracrew.server.dashboard import field_forms, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.field_forms import FormErrors
from terracrew.server.dashboard.forms import RunnerChoices
from terracrew.server.dashboard.modules import source
from terracrew.server.dashboard.modules.source import SourceFields
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service as runners
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path
from terracrew.server.tree.modules import archives, service

HERE = "/dashboard/modules"
_TYPED = ("description", "tags", "runner_instance_name")
"""The fields whose types say what is valid."""


class NewModuleForm(SourceFields, frozen=True):
    """The values as they were typed. An empty group is the organization; an empty runner or instance means any."""

    name: str = ""
    group: str = ""
    description: str = ""
    engine: str = "tofu"
    runner: str = ""
    runner_instance_name: str = ""
    tags: str = ""
    needs_approval: bool = False
    is_triggered: bool = False
    """Whether it is applied by itself when an output that it uses has changed."""

    @property
    def group_path(self) -> str:
        return self.group.strip().strip("/")


@get("/create")
async def create_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    return await _answer(request, NewModuleForm(group=group, submodules=True), {})


@post("/create", status_code=200)
async def create(request: DashboardCall) -> Response[Any]:
    form, context = await forms.read(request, NewModuleForm), request.context

    async def work(tx: Tx, who: Principal) -> Module:
        await _require(tx, who)
        if wrong := await _wrong_fields(tx, who, form, context.local_roots):
            raise FormErrors(wrong)
        try:
            return await service.create(tx, who, _wanted(form), context.local_roots, context.keys)
        except (Invalid, Conflict, NotFound, Forbidden) as error:
            raise FormErrors(_placed(form, error)) from None

    try:
        made = await request.write(work)
    except FormErrors as error:
        return await _answer(request, form, error.messages)
    return render.go(request, f"{HERE}/{made.id}")


async def _answer(request: DashboardCall, form: NewModuleForm, wrong: Mapping[str, str]) -> Response[Any]:
    async def read(tx: Tx, who: Principal) -> tuple[list[str], list[str], RunnerChoices]:
        engines = await service.known_engines(tx, who.organization_id or "")
        return await _require(tx, who), engines, await forms.offer_runners(tx, who)

    offered, engines, runner_choices = await request.read(read)
    return await render.page(
        request,
        "modules/creation/form",
        groups=offered,
        form=form,
        wrong=wrong,
        engines=engines,
        runners=runner_choices,
        roots=[str(root) for root in request.context.local_roots],
        max_archive_bytes=archives.MAX_ARCHIVE_BYTES,
    )


async def _require(tx: Tx, who: Principal) -> list[str]:
    """Return the first groups in which the caller may create a module. Refuse a caller who may create one nowhere."""
    found = await forms.offer_groups(tx, who, Verb.TREE_WRITE)
    if not found:
        raise Forbidden("you may not create a module: ask an owner of a group for a role")
    return found


async def _wrong_fields(tx: Tx, who: Principal, form: NewModuleForm, roots: Sequence[Path]) -> dict[str, str]:
    """Return what is wrong with each field, so that a person can correct all of them at once."""
    wrong: dict[str, str] = {}
    organization_id, engine = who.organization_id or "", form.engine.strip()
    try:
        tree_path.name(form.name.strip())
    except Invalid as error:
        wrong["name"] = error.message
    try:
        group = await groups.find(tx, who, form.group_path)
        await authorize.require(tx, who, Verb.TREE_WRITE, groups.place(group), groups.unseen(form.group_path))
    except (Invalid, NotFound, Forbidden) as error:
        wrong["group"] = error.message
    try:
        await service.check_engine(tx, organization_id, engine)
    except Invalid as error:
        wrong, engine = wrong | _placed(form, error), "tofu"
    try:
        await service.checked_source(tx, who, organization_id, source.from_form(form), roots, engine)
    except (Invalid, NotFound, TooLarge) as error:
        wrong |= source.place(form, error)
    try:
        if form.runner.strip():
            await runners.find(tx, who, form.runner.strip(), Verb.RUNNER_READ)
    except (Invalid, NotFound, Forbidden) as error:
        wrong["runner"] = error.message
    try:
        _settings(form)
    except FormErrors as error:
        wrong |= error.messages
    return wrong


def _placed(form: NewModuleForm, error: TerracrewError) -> dict[str, str]:
    """Return a message of the service beside the field that it names; without one, it is about the name."""
    field = (error.field or "") if isinstance(error, Invalid) else ""
    if field.partition(".")[0] == "source":
        return source.place(form, error)
    if isinstance(error, Invalid) and field in ("engine", "runner"):
        return {field: error.reason}
    return {"name": error.message}


def _settings(form: NewModuleForm) -> dict[str, Any]:
    """Return what was typed into fields whose types say what is valid. Raises FormErrors."""
    shown, typed = field_forms.layout(ModuleRequest, _TYPED), {name: getattr(form, name) for name in _TYPED}
    return fields.given(field_forms.from_form(shown, typed, ModuleChange, PlaceSettings()))


def _wanted(form: NewModuleForm) -> NewModule:
    return NewModule(
        path=tree_path.join(form.group_path, form.name.strip()),
        source=source.from_form(form),
        engine=form.engine.strip(),
        runner=form.runner.strip() or None,
        needs_approval=form.needs_approval,
        triggers="auto" if form.is_triggered else "manual",
        **_settings(form),
    )
