"""Every operation of the API is a command and a page as well, and the reverse: the tables that say so are complete and true."""

import re
from collections import Counter
from functools import cache
from inspect import unwrap
from pathlib import Path
from typing import Any

import click
import pytest
from litestar.routes import HTTPRoute

from terracrew.cli.main import cli
from terracrew.server import dashboard
from terracrew.server.app import make_unattached_app
from terracrew.server.openapi.commands import ALSO, COMMANDS, COMMANDS_ALONE, WITHOUT_COMMAND
from terracrew.server.openapi.pages import PAGES, PAGES_ALONE, WITHOUT_PAGE
from tests.cli.every_command import COMMANDS as EVERY_COMMAND
from tests.server.openapi.called_functions import domain_functions
from tests.server.openapi.requested_paths import requests

API = "/api/v1"
OF_PAGES = "terracrew.server.dashboard."
DASHBOARD = Path(dashboard.__file__).parent
BY_SCRIPT = {"POST /api/v1/archives", "POST /api/v1/modules/{module}/states"}
"""A script of the page sends these requests to the API itself."""
LINKED = {
    "GET /api/v1/states/{version}",
    "GET /api/v1/audit/export",
    "GET /api/v1/events",
    "GET /api/v1/releases/{release}/artifacts/{artifact}",
}
"""The page has the address of the operation itself, to download its answer or to listen to it."""
READ_BY = {
    "GET /api/v1/groups": "tree.groups.reads.contents",
    "GET /api/v1/groups/{group}": "tree.groups.reads.contents",
    "GET /api/v1/modules": "tree.modules.reads.search",
    "GET /api/v1/modules/{module}": "runs.module_view.placement",
    "GET /api/v1/modules/{module}/resources": "state.resources.page",
    "GET /api/v1/modules/{module}/states": "state.reads.written_versions",
    "GET /api/v1/inputs": "tree.inputs.service.views",
    "GET /api/v1/forges": "context.forges",
    "GET /api/v1/forges/{forge}": "forges.service.list_repositories",
    "GET /api/v1/runners": "runners.view_reads.views_of",
    "GET /api/v1/runners/{runner}": "runners.view_reads.view",
    "GET /api/v1/runners/{runner}/remaining": "runners.removal.remaining.of",
    "GET /api/v1/rollouts": "rollouts.service.newest",
    "GET /api/v1/rollouts/{rollout}": "rollouts.service.newest",
    "GET /api/v1/fleet-jobs/{fleet_job}/log": "fleet_jobs.reads.last_lines",
    "GET /api/v1/jobs": "jobs.reads.page",
    "GET /api/v1/overview": "overview.service.with_figures",
    "GET /api/v1/organizations": "identity.access.organizations.listing",
    "GET /api/v1/server/retention": "context.surveys.show_usage",
    "GET /api/v1/cloud-identities/{identity}": "cloud_hosted.identity_views.view",
    "GET /api/v1/cloud-identities/{identity}/policies": "cloud_hosted.identity_views.policies_of",
    "GET /api/v1/cloud-identities/{identity}/report": "cloud_hosted.reporting.of_record",
}
"""What a page calls to read what the operation returns, where the operation calls another function: the page reads a part of it, or
reads it together with other things."""
MAX_PAGES = 15
"""A function that more pages than these refer to says nothing about one of them: it finds the place that a page is about, or is in
the frame of every page."""


@cache
def handlers() -> dict[str, Any]:
    """Return the function behind each method and path, of the API and of the dashboard."""
    return {
        f"{method} {route.path_format}": unwrap(getattr(handler.fn, "value", handler.fn))
        for route in make_unattached_app().routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        for method in handler.http_methods - {"OPTIONS", "HEAD"}
    }


def pages() -> set[str]:
    return {name for name, handler in handlers().items() if handler.__module__.startswith(OF_PAGES)}


def operations() -> set[str]:
    return {name for name in handlers() if name.partition(" ")[2].startswith(f"{API}/")}


def command(line: str) -> click.Command:
    found: click.Command = cli
    for word in line.split():
        if not word.startswith("--"):
            assert isinstance(found, click.Group)
            inner = found.get_command(click.Context(found), word)
            assert inner is not None, line
            found = inner
    return found


def can_request(line: str, operation: str) -> bool:
    """Return whether the code of a command can make the request of an operation."""
    method, path = operation.split()
    methods, patterns = requests(command(line).callback or command)
    wanted = re.sub(r"{\w+}", "X", path.removeprefix(API))
    return method in methods and any(pattern.fullmatch(wanted) for pattern in patterns)


def does(page: str, operation: str) -> bool:
    """Return whether the handlers of a page and of an operation call the same function of the domain."""
    of_page = domain_functions(handlers()[page])
    return READ_BY.get(operation) in of_page or bool(
        of_page & domain_functions(handlers()[operation]) - of_many_pages()
    )


@cache
def of_many_pages() -> set[str]:
    counts = Counter(function for page in pages() for function in domain_functions(handlers()[page]))
    return {function for function, count in counts.items() if count > MAX_PAGES}


@cache
def addresses_in_pages() -> str:
    """Return the templates and the code of the pages, with each expression in an address as X."""
    files = [each for each in DASHBOARD.rglob("*") if each.suffix in (".html", ".py", ".js")]
    return re.sub(r"{{[^}]*}}", "X", "\n".join(each.read_text() for each in files))


@pytest.mark.feature("P4.commands")
def test_every_command_makes_the_request_that_the_table_says() -> None:
    named = [*((line, operation) for operation, line in COMMANDS.items()), *ALSO.items()]
    assert [pair for pair in named if not can_request(*pair)] == []


@pytest.mark.feature("P4.commands")
def test_every_command_does_what_the_api_can_do_or_says_why_not() -> None:
    used = {" ".join(word for word in line.split() if not word.startswith("--")) for line in COMMANDS.values()}
    known = [*used, *ALSO, *COMMANDS_ALONE]
    assert EVERY_COMMAND.keys() - set(known) == set(), "name the operation in terracrew/server/openapi/commands.py"
    assert set(known) - EVERY_COMMAND.keys() == set()
    assert len(known) == len(set(known))


@pytest.mark.feature("P4.pages")
def test_every_operation_has_a_page_or_says_why_not() -> None:
    nobodys = {name for name in WITHOUT_COMMAND if name.partition(" ")[2].startswith(API)}
    known = [*PAGES, *WITHOUT_PAGE, *nobodys]
    assert operations() - set(known) == set(), "name the page in terracrew/server/openapi/pages.py"
    assert set(known) - operations() == set()
    assert len(known) == len(set(known))


@pytest.mark.feature("P4.pages")
def test_every_address_of_the_dashboard_belongs_to_an_operation_or_says_why_not() -> None:
    used = {page for each in PAGES.values() for page in each}
    forms = {page for page in pages() if page.startswith("GET ") and is_form_of(page, used)}
    assert pages() - used - forms - PAGES_ALONE.keys() == set(), "name it in terracrew/server/openapi/pages.py"
    assert (used | PAGES_ALONE.keys()) - pages() == set()
    assert used & PAGES_ALONE.keys() == set()


def is_form_of(page: str, used: set[str]) -> bool:
    """Return whether a page shows the form that is sent to one of these addresses: it has the same path, or the part before."""
    path = page.removeprefix("GET ")
    return any(
        each in used
        for each in (f"POST {path}", f"POST {path}/{{section}}", f"POST {path.replace('/destroy', '/run')}")
    )


@pytest.mark.feature("P4.pages")
def test_every_form_calls_what_the_operation_calls() -> None:
    changing = [(page, name) for name, each in PAGES.items() for page in each if not page.startswith("GET ")]
    assert len(changing) > 80
    assert [pair for pair in changing if not does(*pair)] == []
    shown = {name for name, each in PAGES.items() if not name.startswith("GET ") and each[0].startswith("GET ")}
    assert shown == BY_SCRIPT


@pytest.mark.feature("P4.pages")
def test_every_page_reads_what_the_operation_returns_or_links_to_it() -> None:
    """A wrong page could be named for each operation that shows something: the account page, for the roles of the caller."""
    shown = [(page, name) for name, each in PAGES.items() for page in each if name.startswith("GET ")]
    assert len(shown) > 90
    assert [pair for pair in shown if not does(*pair) and pair[1] not in LINKED] == []
    linked = {name: re.sub(r"{\w+}", "X", name.removeprefix("GET ")) for name in LINKED}
    assert [name for name, address in linked.items() if f'"{address}' not in addresses_in_pages()] == []
    assert [name for name in (*READ_BY, *LINKED) if name not in PAGES] == []


@pytest.mark.parametrize(
    ("line", "operation"),
    [
        ("group delete", "DELETE /api/v1/modules/{module}"),
        ("group show", "DELETE /api/v1/groups/{group}"),
        ("runner drain", "POST /api/v1/runners/{runner}/wake"),
        ("job approve", "POST /api/v1/jobs/{job}/decline"),
        ("state push", "POST /api/v1/modules/{module}/states"),
    ],
)
def test_a_command_that_makes_another_request_is_found(line: str, operation: str) -> None:
    assert not can_request(line, operation)


@pytest.mark.parametrize(
    ("page", "operation"),
    [
        ("POST /dashboard/jobs/{job}/approve", "POST /api/v1/jobs/{job}/decline"),
        ("POST /dashboard/groups/{group}/delete", "DELETE /api/v1/modules/{module}"),
        ("POST /dashboard/modules/{module}/run", "POST /api/v1/groups/{group}/runs"),
        ("POST /dashboard/notifications/create", "PATCH /api/v1/notification-channels/{channel}"),
        ("GET /dashboard/account", "GET /api/v1/me"),
        ("GET /dashboard/modules/{module}/access", "GET /api/v1/modules/{module}/outputs"),
        ("GET /dashboard/schedules", "GET /api/v1/policies"),
        ("GET /dashboard/runners", "GET /api/v1/jobs/{job}"),
    ],
)
def test_a_page_that_does_something_else_is_found(page: str, operation: str) -> None:
    assert not does(page, operation)
