"""What `atlantis.yaml` and the `repos.yaml` of a server say, as far as an import needs it."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from terracrew.errors import Invalid

T = TypeVar("T")
VERSION = "3"
"""The version of `atlantis.yaml` that Atlantis of today reads."""
StepsGiven = list[str | dict[str, Any]]


class AtlantisAutoplan(msgspec.Struct, frozen=True):
    when_modified: list[str] | None = None
    enabled: bool | None = None


class AtlantisProject(msgspec.Struct, frozen=True, kw_only=True):
    name: str | None = None
    branch: str | None = None
    dir: str = "."
    workspace: str | None = None
    terraform_distribution: str | None = None
    terraform_version: str | None = None
    autoplan: AtlantisAutoplan | None = None
    plan_requirements: list[str] | None = None
    apply_requirements: list[str] | None = None
    import_requirements: list[str] | None = None
    workflow: str | None = None
    execution_order_group: int | None = None
    depends_on: list[str] | None = None
    delete_source_branch_on_merge: bool | None = None
    repo_locking: bool | None = None
    repo_locks: dict[str, Any] | None = None
    custom_policy_check: bool | None = None
    silence_pr_comments: list[str] | None = None


class AtlantisStage(msgspec.Struct, frozen=True):
    steps: StepsGiven | None = None


class AtlantisWorkflow(msgspec.Struct, frozen=True):
    plan: AtlantisStage | None = None
    apply: AtlantisStage | None = None
    policy_check: AtlantisStage | None = None
    import_: AtlantisStage | None = msgspec.field(default=None, name="import")
    state_rm: AtlantisStage | None = None


class AtlantisFile(msgspec.Struct, frozen=True, kw_only=True):
    version: str = VERSION
    automerge: bool | None = None
    projects: list[AtlantisProject] | None = None
    workflows: dict[str, AtlantisWorkflow] | None = None


class ServerRepository(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of `repos.yaml`: what a server of Atlantis decides for the repositories that it names."""

    id: str
    branch: str | None = None
    workflow: str | None = None
    apply_requirements: list[str] | None = None
    plan_requirements: list[str] | None = None
    allowed_overrides: list[str] | None = None
    allow_custom_workflows: bool | None = None
    pre_workflow_hooks: list[Any] | None = None
    post_workflow_hooks: list[Any] | None = None

    def matches(self, repository: str) -> bool:
        if len(self.id) > 2 and self.id.startswith("/") and self.id.endswith("/"):
            try:
                return re.search(self.id[1:-1], repository) is not None
            except re.error:
                raise Invalid(f"repos: {self.id[:200]!r} is not a regular expression") from None
        return self.id == repository


class ServerFile(msgspec.Struct, frozen=True):
    repos: list[ServerRepository] | None = None
    workflows: dict[str, AtlantisWorkflow] | None = None


class ServerRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a server of Atlantis decides for one repository: of each setting, the last entry that says something."""

    workflow: str | None = None
    apply_requirements: list[str] | None = None
    allowed_overrides: frozenset[str] | None = None
    """Which settings of the repository count; None if no server was asked, so that all do."""
    allows_workflows: bool = True
    has_hooks: bool = False
    workflows: Mapping[str, AtlantisWorkflow] = {}

    def is_allowed(self, setting: str) -> bool:
        return self.allowed_overrides is None or setting in self.allowed_overrides


def file(document: dict[str, Any]) -> tuple[AtlantisFile, tuple[str, ...]]:
    """Return what an `atlantis.yaml` says, and the names of settings that an import does not know."""
    found = _converted(document, AtlantisFile)
    if found.version != VERSION:
        raise Invalid(f"it has version {found.version[:20]}, and {VERSION} is expected")
    unknown = sorted(set(document) - {"version", "automerge", "projects", "workflows"})
    known = set(AtlantisProject.__struct_fields__)
    projects: Sequence[Any] = document.get("projects") or ()
    unknown += sorted({name for each in projects if isinstance(each, dict) for name in each} - known)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return found, tuple(map(str, unknown))


def server_rules(document: dict[str, Any], repository: str) -> ServerRules:
    """Return what a server decides for a repository such as `github.com/acme/infra`."""
    found = _converted(document, ServerFile)
    merged: dict[str, Any] = {}
    has_hooks = False
    for each in found.repos or ():
        if not each.matches(repository):
            continue
        has_hooks = has_hooks or bool(each.pre_workflow_hooks or each.post_workflow_hooks)
        values = msgspec.structs.asdict(each)
        merged |= {name: value for name, value in values.items() if value is not None}
    return ServerRules(
        workflow=merged.get("workflow"),
        apply_requirements=merged.get("apply_requirements"),
        allowed_overrides=frozenset(merged.get("allowed_overrides") or ()),
        allows_workflows=bool(merged.get("allow_custom_workflows")),
        has_hooks=has_hooks,
        workflows=found.workflows or {},
    )


def _converted(document: dict[str, Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(document, kind, strict=False)  # every value is a text
    except msgspec.ValidationError as error:
        raise Invalid(f"it is not what Atlantis expects: {error}") from None
