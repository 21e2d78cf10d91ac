"""Checks of settings that depend on each other.

They see the merged values before each single value is checked, so that everything that is wrong is reported at once.
"""

import os
from collections.abc import Iterator
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from terracrew import ids, plugins
from terracrew.client import address
from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import APPLIED, ChoiceField
from terracrew.runner import engine_users
from terracrew.runner.dispatch.docker import settings as docker_settings
from terracrew.runner.dispatch.ecs import settings as ecs_settings
from terracrew.runner.dispatch.kubernetes import settings as kubernetes_settings
from terracrew.settings.merging import Combination
from terracrew.settings.runner import RunnerSection
from terracrew.settings.trees import Tree, find

_PAIRS = "give client_id or service_account_path with client_secret or helper, or worker_id and worker_token"
_CREDENTIALS = ("client_id", "service_account_path", "client_secret", "worker_id", "worker_token", "helper")
_ALLOWED_CREDENTIALS = (
    {"client_id", "client_secret"},
    {"service_account_path", "client_secret"},
    {"client_id", "helper"},
    {"service_account_path", "helper"},
    {"worker_id", "worker_token"},
)
_ALLOWED: dict[str, ChoiceField] = {
    "images": "image",
    "max_memory_mb": "memory_mb",
    "max_cpu": "cpu",
    "service_accounts": "service_account",
}
"""The settings of an allow-list, each with what a job may then ask for."""
_PROBLEMS = {
    "docker": docker_settings.problems,
    "ecs": ecs_settings.problems,
    "kubernetes": kubernetes_settings.problems,
}
"""What is wrong with the settings of a dispatcher, by its type."""
_BOOLEAN = TypeAdapter(bool)


def check(values: Tree) -> Iterator[Combination]:
    yield from _names(values)
    yield from _credentials(values)
    yield from _addresses_for_executors(values)
    yield from _plain_http(values)
    yield from _hooks(values)
    yield from _dispatchers(values)
    yield from _engine_users(values)
    yield from _self_update(values)


def _names(values: Tree) -> Iterator[Combination]:
    given = [name for name in ("id", "path") if find(values, ("runner", name)) is not None]
    if not given:
        variables = "TERRACREW_RUNNER__ID, TERRACREW_RUNNER_PATH"
        words = f"this or runner.path is required (in the file, or as {variables})"
        yield Combination(("runner", "id"), words, missing=[("runner", "id"), ("runner", "path")])
    elif len(given) > 1:
        yield Combination(("runner", "path"), "give the runner's id or its path, not both")
    if "path" not in given and find(values, ("runner", "instance")) is None:
        words = "is required without runner.path (in the file, or as TERRACREW_RUNNER__INSTANCE)"
        yield Combination(("runner", "instance"), words, missing=[("runner", "instance"), ("runner", "path")])


def _credentials(values: Tree) -> Iterator[Combination]:
    section = ("runner", "credentials")
    given = {name for name in _CREDENTIALS if find(values, (*section, name)) is not None}
    if not given:
        yield Combination(section, f"a credential is required: {_PAIRS}", missing=[section])
    elif given not in _ALLOWED_CREDENTIALS:
        is_incomplete = any(given < pair for pair in _ALLOWED_CREDENTIALS)
        words = f"there is {' and '.join(sorted(given))}: {_PAIRS}"
        yield Combination(section, words, missing=[section] if is_incomplete else [])
    client_id, organization = find(values, (*section, "client_id")), find(values, ("runner", "organization_id"))
    named = str(client_id or "").rpartition(":")[0]
    if ids.is_id("org", named) and organization is not None and not _is_same_organization(named, str(organization)):
        yield Combination(
            (*section, "client_id"), f"it is of the organization {named}, and runner.organization_id is another one"
        )


def _is_same_organization(named: str, organization: str) -> bool:
    """Compare two ids of organizations. The check of the setting itself reports a second one that is not an id."""
    return not ids.is_id("org", organization) or ids.parse("org", named) == ids.parse("org", organization)


def _addresses_for_executors(values: Tree) -> Iterator[Combination]:
    for section in _dispatcher_sections(values):
        path = (*section, "data", "api_url")
        if (url := find(values, path)) is not None:
            try:
                address.checked(str(url))
            except Invalid as error:
                yield Combination(path, error.message)


def _plain_http(values: Tree) -> Iterator[Combination]:
    urls = [(*section, "data", "api_url") for section in _dispatcher_sections(values)]
    for path in (("server", "url"), *urls):
        url = find(values, path)
        if not isinstance(url, str) or not url.startswith("http:") or _is_set(values, ("server", "allow_plain_http")):
            continue
        if address.is_address(url) and not address.is_loopback(url):
            words = "plain http to another machine exposes every secret: use https, or set server.allow_plain_http"
            yield Combination(path, words, missing=[("server", "allow_plain_http")])


def _hooks(values: Tree) -> Iterator[Combination]:
    path = ("hooks_preapproval", "preapproved_hooks_directory")
    directory = find(values, path)
    if not isinstance(directory, str) or not _is_set(values, ("hooks_preapproval", "enabled")):
        return
    if not os.path.isdir(os.path.expanduser(directory)):
        yield Combination(path, f"{directory!r} is not a directory, and pre-approval of hooks is enabled")


def _dispatcher_sections(values: Tree) -> list[tuple[str, ...]]:
    """Return the paths of the sections of all dispatchers, the default one first."""
    named = find(values, ("job_dispatchers",))
    names = sorted(map(str, cast("Tree", named))) if isinstance(named, dict) else []
    return [("job_dispatcher",), *(("job_dispatchers", name) for name in names)]


def _dispatchers(values: Tree) -> Iterator[Combination]:
    for section in _dispatcher_sections(values):
        yield from _dispatcher(values, section)
        yield from _allowed(values, section)
        name, kind = section[-1], find(values, (*section, "type"))
        if len(section) > 1 and name != kind and plugins.has(plugins.DISPATCHERS, name):
            yield Combination(section, f"{name!r} is the name of another type than {kind}: use another name")


def _allowed(values: Tree, section: tuple[str, ...]) -> Iterator[Combination]:
    kind = find(values, (*section, "type")) or "local"
    for name, field in _ALLOWED.items():
        path = (*section, "allow", name)
        if find(values, path) and field not in APPLIED.get(str(kind), {field}):
            words = f"the dispatcher `{kind}` cannot give this to a job"
            yield Combination(path, words, missing=[(*section, "type")])


def _dispatcher(values: Tree, section: tuple[str, ...]) -> Iterator[Combination]:
    data, kind = find(values, (*section, "data")), find(values, (*section, "type"))
    if (problems := _PROBLEMS.get(str(kind))) and (data is None or isinstance(data, dict)):
        given = {str(name): str(value) for name, value in cast("Tree", data or {}).items() if name != "api_url"}
        for name, words in problems(given).items():
            path = (*section, "data", name)
            if name not in given:
                words = f"{words} (in the file, or as {_variable(path)})"
            yield Combination(path, words, missing=[] if name in given else [path])
    if kind not in (None, "local") or not isinstance(data, dict):
        return
    for name in sorted(str(each) for each in cast("Tree", data) if each != "api_url"):
        words = "the dispatcher `local` has no such setting"
        yield Combination((*section, "data", name), words, missing=[(*section, "type")])


def _self_update(values: Tree) -> Iterator[Combination]:
    key = ("runner", "release_key")
    if _is_set(values, ("runner", "self_update")) and find(values, key) is None:
        words = "is required with runner.self_update (in the file, or as TERRACREW_RUNNER_RELEASE_KEY)"
        yield Combination(key, words, missing=[key])


def _variable(path: tuple[str, ...]) -> str:
    return f"TERRACREW_{'_'.join(path).upper().replace('-', '_')}"


def _engine_users(values: Tree) -> Iterator[Combination]:
    path = ("executor", "user")
    text = find(values, path)
    if not isinstance(text, str) or text in (engine_users.AUTO, engine_users.NONE):
        return
    kinds = {find(values, (*section, "type")) or engine_users.DISPATCHER for section in _dispatcher_sections(values)}
    if engine_users.DISPATCHER not in kinds:
        yield Combination(path, "only the dispatcher `local` knows it: in containers, engines have a user of their own")
        return
    try:
        count = len(engine_users.parse(text))
    except ValueError:
        return  # the check of the setting itself reports it
    if not engine_users.is_privileged():
        words = "this process is not root, so it cannot run engines as another user: start the runner as root"
        yield Combination(path, words)
    capacity = find(values, ("runner", "capacity"))
    wanted = int(capacity) if str(capacity).isdigit() else RunnerSection.model_fields["capacity"].default
    if count < wanted:
        words = (
            f"{count} user{'' if count == 1 else 's'} cannot run {wanted} attempts at once: name more users, or set "
            f"runner.capacity to {count}"
        )
        yield Combination(path, words, missing=[("runner", "capacity")])


def _is_set(values: Tree, path: tuple[str, ...]) -> bool:
    value: Any = find(values, path)
    try:
        return _BOOLEAN.validate_python(value)
    except ValidationError:
        return False  # the check of the setting itself reports it
