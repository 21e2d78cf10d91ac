"""Reads an organization of HCP Terraform, or of a host like it. Only the lock of a workspace changes anything there."""

import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from terracrew.cli.commands.importing import states
from terracrew.cli.commands.importing.hcp_facts import (
    HcpOrganization,
    HcpProject,
    HcpStateVersion,
    HcpVariable,
    HcpVariableSet,
    HcpWorkspace,
    HcpWorkspaceAttributes,
)
from terracrew.cli.commands.importing.model import ImportedModule, StateOrigin
from terracrew.cli.commands.importing.tfe_client import ReadResource, TfeClient
from terracrew.errors import Forbidden, Invalid, NotFound

T = TypeVar("T")
MAX_READING_TASKS = 6
_converting = threading.Lock()
"""Held while attributes become structs. A process whose threads used new structs of msgspec at once has ended with a segmentation
fault, and the lock costs nothing: conversions run one at a time in any case."""
_LACKING = {
    "organizations/projects": "projects",
    "organizations/varsets": "variable sets",
    "organizations/teams": "teams",
    "team-workspaces": "which teams may use a workspace",
    "workspaces/run-triggers": "which runs start others",
    "workspaces/remote-state-consumers": "which workspaces read the state of others",
    "workspaces/tag-bindings": "tags with values",
}


class _Optional:
    """Reads lists that not every host has, or not for every workspace. One that is refused at first is not asked for again."""

    def __init__(self, client: TfeClient) -> None:
        self._client, self._lock = client, threading.Lock()
        self._answered, self._refused = set[str](), set[str]()

    def items(self, what: str, path: str, **query: Any) -> list[ReadResource]:
        if what in self._refused and what not in self._answered:
            return []
        try:
            found = list(self._client.list(path, **query))
        except (NotFound, Forbidden, Invalid):
            with self._lock:
                self._refused.add(what)
            return []
        with self._lock:
            self._answered.add(what)
        return found

    @property
    def lacking(self) -> list[str]:
        return [_LACKING[what] for what in sorted(self._refused)]


def organization(
    client: TfeClient, name: str, patterns: Sequence[str], report: Callable[[str], None] = lambda _: None
) -> HcpOrganization:
    """Read an organization with the workspaces whose names match one of the patterns; all, if there are none."""
    at, optional = f"organizations/{quote(name, safe='')}", _Optional(client)
    listed: list[ReadResource] = []
    try:
        for page in client.pages(f"{at}/workspaces"):
            listed += [each for each in page if _is_wanted(each, patterns)]
            report(f"reading workspaces: {len(listed)}")
    except NotFound:
        raise NotFound(
            f"{client.host} has no organization `{name}`, or the token may not see it",
            hint="the name is the one in the address of its page; give the token of a user or a team that may read its workspaces",
        ) from None
    projects = {
        each.id: HcpProject(str(each.attributes.get("name") or each.id), str(each.attributes.get("description") or ""))
        for each in optional.items("organizations/projects", f"{at}/projects")
    }
    sets = [_variable_set(client, each) for each in optional.items("organizations/varsets", f"{at}/varsets")]
    teams = {
        each.id: str(each.attributes.get("name") or each.id)
        for each in optional.items("organizations/teams", f"{at}/teams")
    }
    names = {each.id: str(each.attributes.get("name")) for each in listed}
    read = functools.partial(_workspace, client, optional, teams, names)
    workspaces: list[HcpWorkspace] = []
    with ThreadPoolExecutor(MAX_READING_TASKS) as pool:
        try:
            for number, each in enumerate(pool.map(read, listed), 1):
                workspaces.append(each)
                report(f"reading workspaces: {number} of {len(listed)}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    remarks: tuple[str, ...] = ()
    if optional.lacking:
        remarks = (f"{client.host} does not tell, or not to this token: {', '.join(optional.lacking)}",)
    return HcpOrganization(
        host=client.host,
        name=name,
        is_terracrew=client.is_terracrew,
        projects=projects,
        variable_sets=tuple(sets),
        workspaces=tuple(workspaces),
        remarks=remarks,
    )


def _is_wanted(resource: ReadResource, patterns: Sequence[str]) -> bool:
    name = str(resource.attributes.get("name") or "")
    return not patterns or any(fnmatchcase(name, each) for each in patterns)


def _variable_set(client: TfeClient, resource: ReadResource) -> HcpVariableSet:
    given = resource.attributes
    variables = client.list(f"varsets/{quote(resource.id, safe='')}/relationships/vars")
    return HcpVariableSet(
        name=str(given.get("name") or resource.id),
        is_global=given.get("global") is True,
        has_priority=given.get("priority") is True,
        project_ids=frozenset(resource.related("projects")),
        workspace_ids=frozenset(resource.related("workspaces")),
        variables=_variables(variables),
    )


def _workspace(
    client: TfeClient, optional: _Optional, teams: dict[str, str], names: dict[str, str], resource: ReadResource
) -> HcpWorkspace:
    at = f"workspaces/{quote(resource.id, safe='')}"
    attributes = _converted(resource.attributes, HcpWorkspaceAttributes, "a workspace")
    access = optional.items("team-workspaces", "team-workspaces", **{"filter[workspace][id]": resource.id})
    triggers = optional.items(
        "workspaces/run-triggers", f"{at}/run-triggers", **{"filter[run-trigger][type]": "inbound"}
    )
    consumers = optional.items("workspaces/remote-state-consumers", f"{at}/relationships/remote-state-consumers")
    bindings = optional.items("workspaces/tag-bindings", f"{at}/tag-bindings")
    known = HcpWorkspace(
        id=resource.id,
        attributes=attributes,
        project_id=next(iter(resource.related("project")), ""),
        has_agents=bool(resource.related("agent-pool")),
        labels=_labels(attributes.tag_names or (), bindings),
        teams=tuple(sorted(_access(each, teams) for each in access)),
        triggered_by=tuple(sorted(str(each.attributes.get("sourceable-name") or each.id) for each in triggers)),
        consumers=tuple(sorted(str(each.attributes.get("name") or names.get(each.id, each.id)) for each in consumers)),
    )
    try:
        variables = _variables(client.list(f"{at}/vars"))
        state = None if _has_no_state(resource) else state_version(client, resource.id)
    except (Forbidden, NotFound) as error:
        return msgspec.structs.replace(known, problem=f"its variables or its state cannot be read: {error.message}")
    return msgspec.structs.replace(known, variables=variables, state=state)


def _has_no_state(resource: ReadResource) -> bool:
    """Return whether the host says that there is no state. Without a relationship, it says nothing."""
    return "current-state-version" in resource.relationships and not resource.related("current-state-version")


def state_version(client: TfeClient, workspace_id: str) -> HcpStateVersion | None:
    """Return what is known of the current state of a workspace; None if it has none."""
    path = f"workspaces/{quote(workspace_id, safe='')}/current-state-version"
    found = client.get(path, is_optional=True)
    return None if found is None else _converted(found.attributes, HcpStateVersion, "a state")


def read_state(client: TfeClient, origin: StateOrigin) -> bytes:
    """Download the state that a workspace has now. Raises Invalid if it is not the one that the host announces."""
    now = state_version(client, origin.reference)
    if now is None or not now.hosted_state_download_url:
        raise Invalid(
            f"{client.host} does not give out the state of {origin.reference}: the token needs the right to read states"
        )
    content = client.download(now.hosted_state_download_url)
    states.check(content, f"the state of {origin.reference}", serial=now.serial, md5=now.md5 or "", size=now.size)
    return content


def lock(client: TfeClient, workspaces: Mapping[str, str], module: ImportedModule) -> str:
    """Lock the workspace that a module comes from, and return what that did in words. `workspaces` has their ids by their names."""
    if client.lock(workspaces[module.origin], f"moved to Terracrew as {module.path}"):
        return f"locked {module.origin} at the source"
    return f"{module.origin} was locked at the source already"


def _access(resource: ReadResource, teams: dict[str, str]) -> str:
    team = next(iter(resource.related("team")), "")
    return f"{teams.get(team, team)} ({resource.attributes.get('access') or 'custom'})"


def _labels(tag_names: Iterable[str], bindings: Sequence[ReadResource]) -> tuple[str, ...]:
    found = {str(each.attributes.get("key") or ""): str(each.attributes.get("value") or "") for each in bindings}
    keys = {key: f"{key}={value}" if value else key for key, value in found.items() if key}
    return tuple(sorted({*(each for each in tag_names if each not in keys), *keys.values()}))


def _variables(resources: Iterable[ReadResource]) -> tuple[HcpVariable, ...]:
    return tuple(_converted(each.attributes, HcpVariable, "a variable") for each in resources)


def _converted(attributes: dict[str, Any], kind: type[T], what: str) -> T:
    try:
        with _converting:
            return msgspec.convert(attributes, kind)
    except msgspec.ValidationError as error:
        # The value of a variable is not part of the message: msgspec names the field and the type.
        raise Invalid(f"the host describes {what} in another way than HCP Terraform: {error}") from None
