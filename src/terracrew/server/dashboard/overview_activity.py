"""What has happened last and what comes next, as the overview shows it: each with a mark and the page where it leads."""

from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from terracrew.api.overview import ActivityEntry, ComingUp
from terracrew.server.dashboard import badges, render
from terracrew.server.dashboard.access import audit
from terracrew.server.dashboard.badges import Badge

_DELETED = (".delete", ".remove", ".retire")
"""How the actions end after which the page of what they were about is gone."""


class ActivityRow(msgspec.Struct, frozen=True):
    happened: ActivityEntry
    badge: Badge | None
    """The mark of a job; None for a change that somebody made."""
    address: str


class ComingRow(msgspec.Struct, frozen=True):
    coming: ComingUp
    address: str


def happened(found: Iterable[ActivityEntry]) -> list[ActivityRow]:
    return [
        ActivityRow(each, None if each.status is None else badges.job_badge(each.status), _page_of(each))
        for each in found
    ]


def coming(found: Iterable[ComingUp]) -> list[ComingRow]:
    return [ComingRow(each, _page_of_coming(each)) for each in found]


def _page_of(activity: ActivityEntry) -> str:
    """Return the page of what something happened to; without one, the entry of the audit log."""
    page = audit.PAGES.get(activity.target_kind)
    action = activity.action or ""
    if page is not None and not action.endswith(_DELETED):
        return f"/dashboard/{page}/{activity.target_id}"
    return render.query(audit.HERE, action=action, path=activity.path)


def _page_of_coming(each: ComingUp) -> str:
    match each.kind:
        case "schedule":
            return f"/dashboard/schedules/{each.target_id}"
        case "approval":
            return f"/dashboard/jobs/{each.target_id}"
        case "role":
            if each.place_kind == "module":
                return f"/dashboard/modules/{quote(each.path or '', safe='')}/access"
            return f"{render.group_url(each.path)}/access" if each.path else "/dashboard/access"
        case "secret" | "trust_policy":
            return f"/dashboard/service-accounts/{each.target_id}"
        case "token":
            return "/dashboard/account"
