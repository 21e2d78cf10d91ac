"""Decides what is made of an `atlantis.yaml`: a module for each project, with its approvals, patterns, hooks and flags."""

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from terracrew.api.inputs import NewInput
from terracrew.api.modules import MAX_WATCH_CHARACTERS, MAX_WATCH_PATTERNS, NewModule
from terracrew.cli.commands.importing import atlantis_workflows, spelling
from terracrew.cli.commands.importing.atlantis_files import AtlantisFile, AtlantisProject, AtlantisWorkflow, ServerRules
from terracrew.cli.commands.importing.atlantis_workflows import WorkflowResult
from terracrew.cli.commands.importing.model import ImportedEngine, ImportedGroup, ImportedModule, ImportPlan
from terracrew.errors import Invalid
from terracrew.protocol.spec import ArchiveSource, GitSource
from terracrew.source_rules import version_ranges

_DEFAULT_WORKFLOW = "default"
_DEFAULT_WORKSPACE = "default"
_BRANCH = re.compile(r"/\^?([A-Za-z0-9][A-Za-z0-9._/-]*)\$?/")
_APPROVED = "approved"
_BY_DESIGN = "undiverged"
"""Terracrew plans the result of the merge, and plans again when the target branch has moved, so that this is always so."""
_MERGEABLE = "mergeable"
MAX_NAMED_ENTRIES = 20


class AtlantisRepository(NamedTuple):
    """The repository that an `atlantis.yaml` is in."""

    url: str
    branch: str

    @property
    def name(self) -> str:
        """The name of the repository on its forge, without its owner."""
        return posixpath.basename(self.url.rstrip("/").removesuffix(".git")).rpartition(":")[2]

    @property
    def id(self) -> str:
        """What `repos.yaml` of a server calls it: `github.com/acme/infra`."""
        rest = self.url.partition("://")[2] or self.url.replace(":", "/", 1)
        return rest.rpartition("@")[2].removesuffix(".git").rstrip("/")


class _Context(NamedTuple):
    repository: AtlantisRepository
    given: AtlantisFile
    server: ServerRules
    into: str
    has_own_backend: bool

    @property
    def workflows(self) -> dict[str, AtlantisWorkflow]:
        own = self.given.workflows or {} if self.server.allows_workflows else {}
        return {**self.server.workflows, **own}


def plan(
    given: AtlantisFile,
    repository: AtlantisRepository,
    server: ServerRules,
    into: str,
    *,
    has_own_backend: bool,
    unknown: tuple[str, ...] = (),
) -> ImportPlan:
    """Return what is made of the projects of a repository."""
    context = _Context(repository, given, server, into, has_own_backend)
    modules = spelling.without_collisions(
        [_module(each, context) for each in given.projects or ()], [into] if into else []
    )
    parents = sorted({each.path.rpartition("/")[0] for each in modules if not each.problem} - {""})
    return ImportPlan(
        f"{len(modules)} projects of {repository.url}",
        tuple(ImportedGroup(each) for each in parents),
        modules,
        tuple(_remarks(context, unknown)),
        (
            "connect the forge (`terracrew forge create`), so that pull requests are planned",
            "give the runners the credentials that Atlantis has, or better cloud logins (docs/cloud.md)",
            "`terracrew group plan GROUP` plans the modules. They should find nothing to change",
            "take the webhook of Atlantis away, so that nobody applies in both places",
        ),
    )


def _module(project: AtlantisProject, context: _Context) -> ImportedModule:
    folder = _folder(project.dir)
    workspace = project.workspace or _DEFAULT_WORKSPACE
    origin = project.name or (folder or ".") + (f" ({workspace})" if workspace != _DEFAULT_WORKSPACE else "")
    try:
        _check_folder(project.dir)
        path = _path(project, folder, workspace, context)
    except Invalid as error:
        empty = NewModule(path="", source=ArchiveSource(""))
        return ImportedModule(origin=origin, new=empty, problem=error.message)
    remarks: list[str] = []
    engine: ImportedEngine = "tofu" if project.terraform_distribution == "opentofu" else "terraform"
    workflow = _workflow(project, context, engine, folder, workspace)
    environment = dict(workflow.environment)
    if workspace != _DEFAULT_WORKSPACE:
        if context.has_own_backend:
            environment["TF_WORKSPACE"] = workspace
        else:
            remarks.append(
                f"it is the workspace {workspace}, and states here have no workspaces: `terraform.workspace` is `default`, so use a "
                "variable instead of it. Bring its state with `tofu state pull` and `terracrew state import`"
            )
    autoplan = project.autoplan
    is_approved = _needs_approval(project, context, remarks)
    new = NewModule(
        path=path,
        source=GitSource(url=context.repository.url, branch=_branch(project, context, remarks), subdirectory=folder),
        engine=engine,
        engine_version=_version(project, remarks),
        backend="own" if context.has_own_backend else "terracrew",
        watch=_watch(autoplan.when_modified if autoplan is not None else None, folder, remarks),
        labels=[spelling.label(f"atlantis/{context.repository.id}//{folder}@{workspace}")],
        pull_request_plans=False if autoplan is not None and autoplan.enabled is False else None,
        pull_request_apply="on_command_then_merge" if context.given.automerge else "on_command",
        needs_approval=is_approved,
        forge_approvals=True if is_approved else None,
    )
    return ImportedModule(
        origin=origin,
        new=new,
        inputs=tuple(NewInput(name, path, "environment", value) for name, value in sorted(environment.items())),
        steps=workflow.steps,
        remarks=(*remarks, *workflow.remarks, *_left(project)),
        problem=workflow.problem,
    )


def _folder(text: str) -> str:
    found = posixpath.normpath(text.strip() or ".").strip("/")
    return "" if found == "." else found


def _check_folder(text: str) -> None:
    if any(each in text for each in "*?["):
        raise Invalid(
            f"its folder {text[:100]!r} is a pattern: `terracrew discovery create` makes a module of each folder that matches"
        )
    if ".." in _folder(text).split("/"):
        raise Invalid(f"its folder {text[:100]!r} is not in the repository")


def _path(project: AtlantisProject, folder: str, workspace: str, context: _Context) -> str:
    if project.name:
        return spelling.join(context.into, *project.name.split("/"))
    names = folder.split("/") if folder else [context.repository.name]
    if workspace != _DEFAULT_WORKSPACE:
        names[-1] = f"{names[-1]}-{workspace}"
    return spelling.join(context.into, *names)


def _branch(project: AtlantisProject, context: _Context, remarks: list[str]) -> str:
    if not project.branch:
        return context.repository.branch
    if found := _BRANCH.fullmatch(project.branch):
        return found[1]
    remarks.append(f"its pattern of branches {project.branch[:100]!r} names several: a module follows one (--branch)")
    return context.repository.branch


def _version(project: AtlantisProject, remarks: list[str]) -> str:
    text = (project.terraform_version or "").strip().removeprefix("v")
    try:
        if text:
            version_ranges.parse_range(text)
    except Invalid:
        remarks.append(f"its version {text[:50]!r} is not a range of versions: any version may run its jobs")
        return ""
    return text


def _watch(patterns: list[str] | None, folder: str, remarks: list[str]) -> list[str]:
    """Return patterns from the top of the repository. Those of Atlantis begin in the folder of the project."""
    found: list[str] = []
    for each in patterns or ():
        is_exception = each.startswith("!")
        below = each.removeprefix("!")
        place = below.lstrip("/") if below.startswith("/") else posixpath.normpath(posixpath.join(folder, below))
        made = f"{'!' if is_exception else ''}/{place}"
        if place.startswith("..") or not place:
            remarks.append(f"its pattern {each[:100]!r} leads out of the repository")
        elif len(made) > MAX_WATCH_CHARACTERS:
            remarks.append(f"its pattern {each[:100]!r}… has more than {MAX_WATCH_CHARACTERS} characters")
        else:
            found.append(made)
    if len(found) > MAX_WATCH_PATTERNS:
        remarks.append(
            f"it has {len(found)} patterns of files, and a module has at most {MAX_WATCH_PATTERNS}: the last are left out"
        )
    return found[:MAX_WATCH_PATTERNS]


def _needs_approval(project: AtlantisProject, context: _Context, remarks: list[str]) -> bool:
    given = project.apply_requirements if context.server.is_allowed("apply_requirements") else None
    wanted = given if given is not None else context.server.apply_requirements or []
    if _MERGEABLE in wanted:
        remarks.append(
            "`mergeable` is not asked before an apply: let the rules of the branch require the status `terracrew`, and use "
            "`on_command_then_merge`, which the forge refuses where they are not met"
        )
    unknown = sorted(set(wanted) - {_APPROVED, _MERGEABLE, _BY_DESIGN})
    if unknown:
        remarks.append(f"its requirements {', '.join(unknown)} have nothing that corresponds to them")
    return _APPROVED in wanted


def _workflow(
    project: AtlantisProject, context: _Context, engine: ImportedEngine, folder: str, workspace: str
) -> WorkflowResult:
    own = project.workflow if context.server.is_allowed("workflow") else None
    name = own or context.server.workflow or _DEFAULT_WORKFLOW
    found = context.workflows.get(name)
    if found is None:
        if name == _DEFAULT_WORKFLOW:
            return WorkflowResult()
        return WorkflowResult(
            problem=f"its workflow {name} is not in the file: give the one of the server with --server-config"
        )
    values = {"WORKSPACE": workspace, "REPO_REL_DIR": folder or "."}
    if project.name:
        values["PROJECT_NAME"] = project.name
    return atlantis_workflows.convert(name, found, engine, values)


def _left(project: AtlantisProject) -> Iterator[str]:
    if project.depends_on:
        yield (
            f"it depends on {', '.join(project.depends_on[:MAX_NAMED_ENTRIES])}: here an input that is an output of another module "
            "gives the order (`input set --output`)"
        )
    if project.execution_order_group:
        yield f"its execution_order_group {project.execution_order_group} has no counterpart: outputs that are inputs give the order"
    if project.plan_requirements:
        yield f"its plan_requirements {', '.join(project.plan_requirements)} have nothing that corresponds to them"
    if project.custom_policy_check:
        yield "its policy checks are not taken over"
    if project.autoplan is not None and project.autoplan.enabled is False:
        yield "it is planned only by a comment there; here pull requests do not plan it (--pull-request-plans changes that)"


def _remarks(context: _Context, unknown: tuple[str, ...]) -> Iterator[str]:
    if not context.given.projects:
        yield (
            f"the file has no projects, so Atlantis finds them by itself: `terracrew discovery create GROUP NAME --url "
            f"{context.repository.url}` makes a module of each folder"
        )
    if context.server.has_hooks:
        yield "the hooks before and after workflows of the server are not taken over: see docs/hooks.md, and docs/discovery.md"
    if not context.server.allows_workflows and context.given.workflows:
        yield "the workflows of the repository do not count, because the server does not allow them"
    if unknown:
        yield f"nothing here corresponds to {', '.join(unknown[:MAX_NAMED_ENTRIES])}"
    if context.has_own_backend:
        yield (
            "states stay in the backends that the sources configure. `terracrew module update PATH --no-own-backend --state FILE` moves "
            "one here later"
        )
