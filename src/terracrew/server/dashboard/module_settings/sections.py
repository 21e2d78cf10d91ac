"""The sections of a module's settings: what each form shows, and the change that it asks for."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from terracrew.errors import Invalid
from terracrew.server.dashboard import clouds, dispatchers, forms, limits
from terracrew.server.dashboard.dispatchers import DispatcherFields
from terracrew.server.dashboard.limits import LimitsFields
from terracrew.server.dashboard.module_settings.page import ModuleSettingsPage
from terracrew.server.dashboard.sections import FormSection
from terracrew.server.tree.modules.model import ModuleChange
from terracrew.wording import durations

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


def _wanted_approvals(form: ApprovalsForm, _: ModuleSettingsPage) -> ModuleChange:
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


def _wanted_runners(form: RunnersForm, page: ModuleSettingsPage) -> ModuleChange:
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


def _wanted_engine(form: EngineForm, _: ModuleSettingsPage) -> ModuleChange:
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
        _wanted_engine,
    ),
    "approvals": FormSection("Approvals", ApprovalsForm, _approvals, _wanted_approvals),
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
        _wanted_runners,
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
        lambda page: limits.typed(page.module.limits),
        lambda form, _: ModuleChange(limits=limits.wanted(form)),
    ),
    "dispatcher": FormSection(
        "Dispatcher of jobs",
        DispatcherFields,
        lambda page: dispatchers.typed(page.module.dispatcher),
        lambda form, _: ModuleChange(dispatcher=dispatchers.wanted(form)),
    ),
    "clouds": FormSection(
        "Cloud logins",
        clouds.CloudFields,
        lambda page: clouds.typed(page.module.cloud),
        lambda form, _: ModuleChange(cloud=clouds.wanted(form)),
    ),
}
"""The sections by their names, in the order of the page."""
