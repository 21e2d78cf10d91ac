"""The hooks and flags of a group or module: the panel on its page, and the page on which they are changed."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.groups import Group
from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.errors import Forbidden, Invalid, NotFound
from terracrew.protocol.spec import Hook, Step
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places, step_settings

HERE = "/dashboard/steps"
STEPS = [step for step in Step if step.is_hookable]


class AddedToStep(msgspec.Struct, frozen=True):
    """What one place adds to a step."""

    settings: StepSettings
    is_inherited: bool

    @property
    def hooks(self) -> list[tuple[str, str, str]]:
        """When each hook runs, what it is, and its SHA-256, which an operator may have to approve."""
        found = (("before", self.settings.before), ("after", self.settings.after))
        return [(when, _text(hook), hook.sha256) for when, hook in found if hook is not None]

    @property
    def flags(self) -> list[tuple[str, str]]:
        return [(engine, flag) for engine, flags in sorted(self.settings.flags.items()) for flag in flags]


class StepsPanel(msgspec.Struct, frozen=True):
    place: InputPlace
    rows: list[AddedToStep]
    may_change: bool


class StepsPage(msgspec.Struct, frozen=True):
    panel: StepsPanel
    groups: list[Group]
    """The groups on the way to the place, the organization first."""

    def form(self, step: Step) -> "StepForm":
        """Return the form with what the place adds to a step now."""
        for row in self.panel.rows:
            if row.settings.step is step and not row.is_inherited:
                settings = row.settings
                flags = "\n".join(f"{engine}:{flag}" for engine, flag in row.flags)
                return StepForm(step, _text(settings.before), _text(settings.after), flags)
        return StepForm(step)


class StepForm(msgspec.Struct, frozen=True):
    step: Step = Step.PLAN
    before: str = ""
    after: str = ""
    flags: str = ""
    """One on each line: `tofu:-parallelism=5`."""

    @property
    def change(self) -> NewStepSettings:
        return NewStepSettings(_hook("before", self.before), _hook("after", self.after), _flags(self.flags))


class StepRemovalForm(msgspec.Struct, frozen=True):
    step: Step


async def panel(tx: Tx, who: Principal, at: InputPlace) -> StepsPanel:
    """Return what is added to the steps of the jobs of a place that the reader may see."""
    found = await step_settings.of_place(tx, at, is_inherited=True)
    place = authorize.module if at.kind == "module" else authorize.group
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, place(at.organization_id, at.path))
    ordered = sorted(found, key=lambda each: (each.step.number, len(each.path)))
    return StepsPanel(at, [AddedToStep(each, each.path != at.path) for each in ordered], may_change)


def _text(hook: Hook | None) -> str:
    """Return a hook as people write it: a script, or the arguments of a command as a JSON list."""
    return "" if hook is None else hook.script or hook.text


def _hook(when: str, typed: str) -> Hook | None:
    text = typed.replace("\r\n", "\n").strip()  # a browser sends this kind of line ending
    if not text:
        return None
    if not text.startswith("["):
        return Hook(f"{text}\n")
    try:
        return Hook(command=msgspec.json.decode(text, type=list[str]))
    except msgspec.DecodeError:
        raise Invalid(
            f'{when}: a command is a JSON list of its arguments, such as ["make","check"]; a script begins with a line such as '
            "`#!/bin/sh`"
        ) from None


def _flags(typed: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in filter(None, map(str.strip, typed.splitlines())):
        engine, colon, flag = line.partition(":")
        if not colon or not flag or engine.startswith("-"):
            raise Invalid(f"{line[:80]!r} does not say for which engine it is: write it as `tofu:-parallelism=5`")
        found.setdefault(engine.strip(), []).append(flag.strip())
    return found


async def _read(tx: Tx, who: Principal, reference: str) -> StepsPage:
    at = await places.find(tx, who, reference)
    found = await panel(tx, who, at)
    if not found.may_change:
        raise Forbidden(f"you may not change the hooks and flags of {at.words}: ask an owner for a role")
    return StepsPage(found, await inputs.lineage(tx, who, at))


@get("/{place:str}")
async def steps_page(request: DashboardCall, place: FromPath[str], step: FromQuery[str] = "plan") -> Response[Any]:
    chosen = next((each for each in STEPS if str(each) == step), Step.PLAN)
    return await _answer(request, tree_path(place), chosen)


@post("/{place:str}", status_code=200)
async def set_step(request: DashboardCall, place: FromPath[str]) -> Response[Any]:
    place = tree_path(place)
    await request.read(_read, place)  # a missing place is not an error of the form
    form = await forms.read(request, StepForm)

    async def write(tx: Tx, who: Principal) -> None:
        at = await _hold(tx, who, place)
        if (wanted := form.change) == NewStepSettings():
            raise Invalid("the step would get nothing: write a hook or a flag, or use Remove")
        await step_settings.put(tx, who, at, form.step, wanted)

    try:
        await request.write(write)
    except (Invalid, Forbidden, NotFound) as error:
        return await _answer(request, place, form.step, form, error.message)
    return await _answer(request, place, form.step)


@post("/{place:str}/remove", status_code=200)
async def remove_step(request: DashboardCall, place: FromPath[str]) -> Response[Any]:
    place = tree_path(place)
    await request.read(_read, place)
    form = await forms.read(request, StepRemovalForm)

    async def write(tx: Tx, who: Principal) -> None:
        await step_settings.remove(tx, who, await _hold(tx, who, place), form.step)

    try:
        await request.write(write)
    except (Forbidden, NotFound) as error:
        return await _answer(request, place, form.step, wrong=error.message)
    return await _answer(request, place, form.step)


async def _hold(tx: Tx, who: Principal, place: str) -> InputPlace:
    """Hold a place for a change. Refuse somebody who lost the right to change it after the page was read."""
    at = await places.hold(tx, who, place)
    find = step_settings.module if at.kind == "module" else step_settings.group
    return await find(tx, who, at.id, Verb.TREE_WRITE)


async def _answer(
    request: DashboardCall, place: str, step: Step, form: StepForm | None = None, wrong: str = ""
) -> Response[Any]:
    page = await request.read(_read, place)
    shown: dict[str, Any] = {"form": form or page.form(step), "wrong": wrong, "steps": STEPS}
    return await render.page(request, "tree/steps/form", page=page, **shown)
