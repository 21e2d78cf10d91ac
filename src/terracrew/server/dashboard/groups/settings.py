"""The form with the settings of a group: what was typed, and the change that it asks for."""

import msgspec

from terracrew.errors import Invalid
from terracrew.server.dashboard import clouds, dispatchers, limits
from terracrew.server.dashboard.dispatchers import DispatcherFields
from terracrew.server.groups.model import Group, GroupChange

_CHOICES = {"": None, "yes": True, "no": False}


class SettingsForm(DispatcherFields, frozen=True):
    """The values as they were typed. Where one is empty, the setting of the group above applies."""

    description: str = ""
    interrupted: str = ""
    max_destroy: str = ""
    max_destroy_percent: str = ""
    self_approval: str = ""
    service_account_approval: str = ""
    min_approvals: str = ""
    max_running_jobs: str = ""


def typed(group: Group) -> SettingsForm:
    """Return the settings of a group as the form shows them."""
    return SettingsForm(
        group.description,
        group.interrupted or "",
        "" if group.max_destroy is None else str(group.max_destroy),
        "" if group.max_destroy_percent is None else str(group.max_destroy_percent),
        _choice(group.self_approval),
        _choice(group.service_account_approval),
        "" if group.min_approvals is None else str(group.min_approvals),
        "" if group.max_running_jobs is None else str(group.max_running_jobs),
        **limits.typed(group.limits),
        cloud=clouds.typed(group.cloud),
        **dispatchers.typed(group.dispatcher),
    )


def wanted(form: SettingsForm) -> GroupChange:
    """Return the change that makes the settings of a group what the form says."""
    if form.self_approval not in _CHOICES or form.service_account_approval not in _CHOICES:
        raise Invalid("the form is not valid: who may approve is answered with yes, no or nothing")
    values = {
        "description": form.description.strip(),
        "interrupted": form.interrupted or None,
        "max_destroy": form.max_destroy.strip() or None,
        "max_destroy_percent": form.max_destroy_percent.strip() or None,
        "self_approval": _CHOICES[form.self_approval],
        "service_account_approval": _CHOICES[form.service_account_approval],
        "min_approvals": form.min_approvals.strip() or None,
        "max_running_jobs": form.max_running_jobs.strip() or None,
    }
    parts = {"limits": limits.wanted(form), "cloud": clouds.wanted(form), "dispatcher": dispatchers.wanted(form)}
    try:
        change = msgspec.convert(values, GroupChange, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"these settings are not valid: {error}") from None
    return msgspec.structs.replace(change, **parts)


def _choice(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"
