"""Checks of settings that depend on each other.

They see the merged values before each single value is checked, so that everything that is wrong is reported at once.
"""

import os
from collections.abc import Iterator
from typing import Any, cast

from terracrew.client import address
from terracrew.runner.dispatch.docker import settings as docker_settings
from terracrew.settings.merging import Combination
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
_TRUE = ("1", "true", "t", "yes", "y", "on")


def check(values: Tree) -> Iterator[Combination]:
    yield from _names(values)
    yield from _credentials(values)
    yield from _plain_http(values)
    yield from _hooks(values)
    yield from _dispatcher(values)


def _names(values: Tree) -> Iterator[Combination]:
    given = [name for name in ("id", "path") if find(values, ("runner", name)) is not None]
    if not given:
        variables = "TERRACREW_RUNNER__ID, TERRACREW_RUNNER_PATH"
        words = f"this or runner.path is required (in the file, or as {variables})"
        yield Combination(("runner", "id"), words, missing=[("runner", "id"), ("runner", "path")])
    elif len(given) > 1:
        yield Combination(("runner", "path"), "give the runner's id or its path, not both")


def _credentials(values: Tree) -> Iterator[Combination]:
    section = ("runner", "credentials")
    given = {name for name in _CREDENTIALS if find(values, (*section, name)) is not None}
    if not given:
        yield Combination(section, f"a credential is required: {_PAIRS}", missing=[section])
    elif given not in _ALLOWED_CREDENTIALS:
        is_incomplete = any(given < pair for pair in _ALLOWED_CREDENTIALS)
        words = f"there is {' and '.join(sorted(given))}: {_PAIRS}"
        yield Combination(section, words, missing=[section] if is_incomplete else [])


def _plain_http(values: Tree) -> Iterator[Combination]:
    for path in (("server", "url"), ("job_dispatcher", "data", "api_url")):
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


def _dispatcher(values: Tree) -> Iterator[Combination]:
    data, kind = find(values, ("job_dispatcher", "data")), find(values, ("job_dispatcher", "type"))
    if kind == "docker" and (data is None or isinstance(data, dict)):
        given = {str(name): str(value) for name, value in cast("Tree", data or {}).items() if name != "api_url"}
        for name, words in docker_settings.problems(given).items():
            path = ("job_dispatcher", "data", name)
            yield Combination(path, words, missing=[] if name in given else [path])
    if kind not in (None, "local") or not isinstance(data, dict):
        return
    for name in sorted(str(each) for each in cast("Tree", data) if each != "api_url"):
        words = "the dispatcher `local` has no such setting"
        yield Combination(("job_dispatcher", "data", name), words, missing=[("job_dispatcher", "type")])


def _is_set(values: Tree, path: tuple[str, ...]) -> bool:
    value: Any = find(values, path)
    return value is True or (isinstance(value, str) and value.lower() in _TRUE)
