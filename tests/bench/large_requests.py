"""The lists and pages that readers of a large organization open, and which of them are refused to a reader who owns one group."""

from urllib.parse import quote, urlencode

import msgspec

from tests.bench import large_access


class ReaderPlaces(msgspec.Struct, frozen=True):
    """What a reader looks at: a module, a job, a group and a runner that they may see."""

    module: str
    path: str
    """The path of the module."""
    job: str
    group: str
    group_path: str
    runner: str


class TimedRequest(msgspec.Struct, frozen=True):
    address: str
    is_refused: bool


_REFUSED_LISTS = frozenset(
    {
        "users",
        "users_search",
        "user_tokens",
        "user_sessions",
        "audit",
        "audit_actor",
        "audit_action",
        "audit_text",
        "service_accounts",
    }
)
_REFUSED_PAGES = frozenset({"users", "user", "service_accounts", "service_account", "audit"})
"""What only those may see who may see the access of the whole organization. For others the refusal is measured."""


def requests(who: str, at: ReaderPlaces) -> dict[str, TimedRequest]:
    """Return what a reader asks for, by the names of the figures."""
    is_limited = who != "admin"
    found = {
        f"list_ms.{who}.{name}": TimedRequest(address, is_limited and name in _REFUSED_LISTS)
        for name, address in _lists(at).items()
    }
    return found | {
        f"page_ms.{who}.{name}": TimedRequest(address, is_limited and name in _REFUSED_PAGES)
        for name, address in _pages(at).items()
    }


def _lists(at: ReaderPlaces) -> dict[str, str]:
    """Return the addresses of lists in the API by their names."""
    question = {"verb": "job.run", "path": at.path}
    user = large_access.USER
    return {
        "jobs": "/api/v1/jobs",
        "modules": "/api/v1/modules",
        "runners": "/api/v1/runners",
        "states": f"/api/v1/modules/{quote(at.path, safe='')}/states",
        "groups": "/api/v1/groups",
        "runner": f"/api/v1/runners/{at.runner}",
        "runner_assignments": f"/api/v1/runners/{at.runner}/assignments",
        "audit": "/api/v1/audit",
        "audit_actor": "/api/v1/audit?actor=user-42",
        "audit_action": "/api/v1/audit?action=role.grant",
        "audit_text": "/api/v1/audit?text=nowhere",
        "audit_path": f"/api/v1/audit?{urlencode({'path': at.group_path})}",
        "users": "/api/v1/users",
        "users_search": "/api/v1/users?search=42",
        "user_tokens": f"/api/v1/users/{user}/tokens",
        "user_sessions": f"/api/v1/users/{user}/sessions",
        "tokens": "/api/v1/tokens",
        "organizations": "/api/v1/organizations",
        "service_accounts": "/api/v1/service-accounts",
        "service_accounts_of_group": f"/api/v1/service-accounts?{urlencode({'group': at.group_path})}",
        "roles": "/api/v1/roles",
        "roles_of_group": f"/api/v1/roles?{urlencode({'path': at.group_path, 'inherited': 'true'})}",
        "explain": f"/api/v1/access/explain?{urlencode(question)}",
        "explain_other": f"/api/v1/access/explain?{urlencode(question | {'principal': user})}",
    }


def _pages(at: ReaderPlaces) -> dict[str, str]:
    """Return the addresses of pages by their names."""
    audit = urlencode({"path": at.group_path, "text": "nowhere"})
    question = urlencode({"who": "user-1", "verb": "job.run", "on": at.path})
    return {
        "overview": "/dashboard",
        "runners": "/dashboard/runners",
        "jobs": "/dashboard/jobs",
        "modules": "/dashboard/modules",
        "job": f"/dashboard/jobs/{at.job}",
        "module": f"/dashboard/modules/{at.module}",
        "add_runner": "/dashboard/runners/add",
        "runner": f"/dashboard/runners/{at.runner}",
        "runner_edit": f"/dashboard/runners/{at.runner}/edit",
        "organization_group": "/dashboard/groups",
        "group": f"/dashboard/groups/{at.group}",
        "group_runners": f"/dashboard/runners?{urlencode({'group': at.group_path})}",
        "group_access": f"/dashboard/groups/{at.group}/access",
        "group_access_explained": f"/dashboard/groups/{at.group}/access?{question}",
        "group_settings": f"/dashboard/groups/{at.group}/settings",
        "module_access": f"/dashboard/modules/{at.module}/access",
        "module_settings": f"/dashboard/modules/{at.module}/settings",
        "users": "/dashboard/users",
        "user": f"/dashboard/users/{large_access.USER}",
        "service_accounts": "/dashboard/service-accounts",
        "service_accounts_of_group": f"/dashboard/service-accounts?{urlencode({'group': at.group_path})}",
        "service_account": f"/dashboard/service-accounts/{large_access.ACCOUNT}",
        "organizations": "/dashboard/organizations",
        "organization": "/dashboard/organizations/default",
        "audit": "/dashboard/audit",
        "audit_filtered": f"/dashboard/audit?{audit}",
        "account": "/dashboard/account",
    }
