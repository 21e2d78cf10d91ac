"""The inputs of a group or module: the panel on its page, and the page on which they are set and removed."""

from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import Group
from terracrew.api.inputs import InputView, NewInput, OutputReference, Target
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge
from terracrew.protocol.spec import Definition
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.tree import words
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import reads
from terracrew.server.tree.inputs import service
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import output_references, places
from terracrew.server.tree.modules import service as modules
from terracrew.wording import typed_values

HERE = "/dashboard/inputs"
MAX_ROWS = 100


class InputsPanel(msgspec.Struct, frozen=True):
    place: InputPlace
    rows: list[InputView]
    count: int
    may_set: bool
    may_set_secrets: bool

    @property
    def may_change(self) -> bool:
        return self.may_set or self.may_set_secrets


class InputsPage(msgspec.Struct, frozen=True):
    panel: InputsPanel
    groups: list[Group]
    """The groups on the way to the place, the organization first."""


class InputForm(msgspec.Struct, frozen=True):
    name: str = ""
    target: Target = "variable"
    kind: Literal["literal", "secret", "output", "definition"] = "literal"
    value: str = ""
    overwrite: bool = False

    def __repr__(self) -> str:
        return f"InputForm({self.name!r})"

    @property
    def kept(self) -> "InputForm":
        """What is shown again after an error: everything but the value of a secret."""
        return msgspec.structs.replace(self, value="") if self.kind == "secret" else self


class InputRemovalForm(msgspec.Struct, frozen=True):
    name: str
    target: Target = "variable"


async def panel(tx: Tx, who: Principal, keys: Keyring, at: InputPlace) -> InputsPanel:
    """Return the inputs that apply to a place that the reader may see."""
    found = await service.views(tx, keys, who, at, is_inherited=True)
    place = service.place_of(at)
    return InputsPanel(
        at,
        found[:MAX_ROWS],
        len(found),
        may_set=await authorize.may(tx, who, Verb.TREE_WRITE, place),
        may_set_secrets=await authorize.may(tx, who, Verb.SECRET_SET, place),
    )


def from_form(form: InputForm, place_id: str) -> NewInput:
    """Return the input that the form asks for."""
    name = form.name.strip()
    if form.kind == "secret":
        return NewInput(name, place_id, form.target, secret=form.value, overwrite=form.overwrite)
    if form.kind == "output":
        module, _, output = form.value.strip().partition(":")
        if not module or not output:
            raise Invalid("an output is given as MODULE:OUTPUT, for example `platform/network:vpc_id`")
        return NewInput(name, place_id, form.target, output=OutputReference(module, output))
    if form.kind == "definition":
        if form.value.strip() not in words.DEFINITIONS:
            raise Invalid(
                f"{form.value.strip()[:100]!r} is nothing that a job has; it has {', '.join(words.DEFINITIONS)}"
            )
        return NewInput(name, place_id, form.target, definition=msgspec.convert(form.value.strip(), Definition))
    value = typed_values.read(form.value) if form.target == "variable" else form.value
    return NewInput(name, place_id, form.target, value, overwrite=form.overwrite)


def edited(panel: InputsPanel, name: str, target: str) -> InputForm | None:
    """Return the form for an input that applies here, as it is stored; None if there is none. No secret is ever in it."""
    found = next((each for each in panel.rows if (each.name, each.target) == (name, target)), None)
    if found is None:
        return None
    value = ""
    if found.kind == "output" and found.source_module:
        value = f"{found.source_module}:{found.source_output}"
    elif found.kind == "definition":
        value = found.definition or ""
    elif found.kind == "literal" and not found.is_hidden:
        value = _typed(found.value, found.target)
    return InputForm(found.name, found.target, found.kind, value, found.overwrite)


def _typed(value: Any, target: Target) -> str:
    """Return the text that stands for a value if it is typed again."""
    if isinstance(value, str) and (target != "variable" or typed_values.read(value) == value):
        return value
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


async def _read(tx: Tx, who: Principal, place: str, keys: Keyring) -> InputsPage:
    at = await places.find(tx, who, place)
    found = await panel(tx, who, keys, at)
    if not found.may_change:
        raise Forbidden(f"you may not change the inputs of {at.words}: ask an owner for a role")
    return InputsPage(found, await lineage(tx, who, at))


async def lineage(tx: Tx, who: Principal, at: InputPlace) -> list[Group]:
    """Return the groups on the way to a place, the organization first."""
    module = await modules.find(tx, who, at.id, Verb.TREE_READ) if at.kind == "module" else None
    return (await reads.lineage(tx, module.group_id if module else at.id))[::-1]


@get("/{place:str}")
async def inputs_page(
    request: DashboardCall, place: FromPath[str], name: FromQuery[str] = "", target: FromQuery[str] = "variable"
) -> Response[Any]:
    """Show the inputs of a place, and the form to set one, or to edit the one that is named."""
    page = await request.read(_read, tree_path(place), request.context.keys)
    return await _show(request, page, edited(page.panel, name, target) if name else None)


@post("/{place:str}", status_code=200)
async def set_input(request: DashboardCall, place: FromPath[str]) -> Response[Any]:
    place, keys = tree_path(place), request.context.keys
    await request.read(_read, place, keys)  # a missing place is not an error of the form
    form = await forms.read(request, InputForm)

    async def write(tx: Tx, who: Principal) -> None:
        at = await places.hold(tx, who, place)
        new = from_form(form, at.id)
        source = None if new.output is None else await output_references.checked(tx, who, at, new.output)
        await service.put(tx, keys, who, at, new, source)

    try:
        await request.write(write)
    except (Invalid, Conflict, Forbidden, NotFound, TooLarge) as error:
        return await _answer(request, place, form.kept, error.message)
    return await _answer(request, place)


@post("/{place:str}/remove", status_code=200)
async def remove_input(request: DashboardCall, place: FromPath[str]) -> Response[Any]:
    place = tree_path(place)
    await request.read(_read, place, request.context.keys)
    form = await forms.read(request, InputRemovalForm)

    async def write(tx: Tx, who: Principal) -> None:
        await service.remove(tx, who, await places.hold(tx, who, place), form.target, form.name)

    try:
        await request.write(write)
    except (NotFound, Forbidden) as error:
        return await _answer(request, place, wrong=error.message)
    return await _answer(request, place)


async def _answer(request: DashboardCall, place: str, form: InputForm | None = None, wrong: str = "") -> Response[Any]:
    return await _show(request, await request.read(_read, place, request.context.keys), form, wrong)


async def _show(
    request: DashboardCall, page: InputsPage, form: InputForm | None = None, wrong: str = ""
) -> Response[Any]:
    own = {(each.target, each.name) for each in page.panel.rows if not each.is_inherited}
    shown: dict[str, Any] = {"is_edit": form is not None and (form.target, form.name) in own, "wrong": wrong}
    return await render.page(request, "tree/inputs/form", page=page, form=form or InputForm(), **shown)
