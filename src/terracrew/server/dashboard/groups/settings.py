"""The settings of a group in sections: what each form shows, and the change that it asks for."""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.api.groups import Group, GroupChange
from terracrew.errors import Invalid
from terracrew.server.dashboard import forms
from terracrew.server.dashboard.forms import FormSection
from terracrew.server.dashboard.groups import page
from terracrew.server.dashboard.groups.page import GroupHead
from terracrew.server.dashboard.tree import clouds, dispatchers, limits
from terracrew.server.dashboard.tree.dispatchers import DispatcherFields
from terracrew.server.dashboard.tree.limits import LimitsFields
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service
from terracrew.server.tree.groups.inheritance import DEFAULTS, EffectiveRule, effective_rule

_CHOICES = {"": None, "yes": True, "no": False}


class GroupSettingsPage(msgspec.Struct, frozen=True):
    head: GroupHead
    above: Mapping[str, EffectiveRule]
    """The approval rules that would apply if the group had none itself."""
    rules: Mapping[str, EffectiveRule]
    """The approval rules that apply."""
    contents: dict[str, int]
    """What is in the group, by kind; known to those who may change it."""

    @property
    def group(self) -> Group:
        return self.head.group


class GroupDescriptionForm(msgspec.Struct, frozen=True):
    description: str = ""


class GroupApprovalsForm(msgspec.Struct, frozen=True):
    """The values as they were typed. Where one is empty, the setting of the group above applies."""

    min_approvals: str = ""
    self_approval: str = ""
    service_account_approval: str = ""
    max_destroy: str = ""
    max_destroy_percent: str = ""


class GroupInterruptionForm(msgspec.Struct, frozen=True):
    interrupted: str = ""


class GroupLimitsForm(LimitsFields, frozen=True, kw_only=True):
    max_running_jobs: str = ""


async def read(tx: Tx, who: Principal, reference: str) -> GroupSettingsPage:
    head = await page.read_head(tx, who, reference)
    await service.show(tx, who, head.group.id)
    return GroupSettingsPage(
        head,
        {name: effective_rule(head.lineage[1:], name) for name in DEFAULTS},
        {name: effective_rule(head.lineage, name) for name in DEFAULTS},
        await service.contents(tx, head.group) if head.may_change else {},
    )


def _change(**values: Any) -> GroupChange:
    return forms.convert(values, GroupChange)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _choice(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _approvals(page: GroupSettingsPage) -> GroupApprovalsForm:
    group = page.group
    return GroupApprovalsForm(
        _number(group.min_approvals),
        _choice(group.self_approval),
        _choice(group.service_account_approval),
        _number(group.max_destroy),
        _number(group.max_destroy_percent),
    )


def _approvals_from_form(form: GroupApprovalsForm, _: GroupSettingsPage) -> GroupChange:
    for name in ("self_approval", "service_account_approval"):
        if getattr(form, name) not in _CHOICES:
            raise Invalid("answer with yes, no or nothing", field=name)
    return _change(
        min_approvals=form.min_approvals.strip() or None,
        self_approval=_CHOICES[form.self_approval],
        service_account_approval=_CHOICES[form.service_account_approval],
        max_destroy=form.max_destroy.strip() or None,
        max_destroy_percent=form.max_destroy_percent.strip() or None,
    )


def _limits(page: GroupSettingsPage) -> GroupLimitsForm:
    shown = msgspec.structs.asdict(limits.to_form(page.group.limits))
    return GroupLimitsForm(**shown, max_running_jobs=_number(page.group.max_running_jobs))


def _limits_from_form(form: GroupLimitsForm, _: GroupSettingsPage) -> GroupChange:
    change = _change(max_running_jobs=form.max_running_jobs.strip() or None)
    return msgspec.structs.replace(change, limits=limits.from_form(form))


SECTIONS: Mapping[str, FormSection[GroupSettingsPage, GroupChange]] = {
    "general": FormSection(
        "Description",
        GroupDescriptionForm,
        lambda page: GroupDescriptionForm(page.group.description),
        lambda form, _: _change(description=form.description.strip()),
    ),
    "approvals": FormSection("Approvals", GroupApprovalsForm, _approvals, _approvals_from_form),
    "interruption": FormSection(
        "After an interruption",
        GroupInterruptionForm,
        lambda page: GroupInterruptionForm(page.group.interrupted or ""),
        lambda form, _: _change(interrupted=form.interrupted or None),
    ),
    "limits": FormSection("Limits of jobs", GroupLimitsForm, _limits, _limits_from_form),
    "dispatcher": FormSection(
        "Dispatcher of jobs",
        DispatcherFields,
        lambda page: dispatchers.to_form(page.group.dispatcher),
        lambda form, _: GroupChange(dispatcher=dispatchers.from_form(form)),
    ),
    "clouds": FormSection(
        "Cloud logins",
        clouds.CloudFields,
        lambda page: clouds.to_form(page.group.cloud),
        lambda form, _: GroupChange(cloud=clouds.from_form(form)),
    ),
}
"""The sections by their names, in the order of the page."""
