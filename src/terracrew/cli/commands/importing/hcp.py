"""Decides what is made of an organization of HCP Terraform, or of a host like it."""

from collections.abc import Iterator, Sequence

from terracrew.api.modules import MAX_LABELS, MAX_WATCH_CHARACTERS, MAX_WATCH_PATTERNS, NewModule
from terracrew.cli.commands.importing import hcp_variables, spelling
from terracrew.cli.commands.importing.hcp_facts import HcpOrganization, HcpRepository, HcpWorkspace
from terracrew.cli.commands.importing.model import (
    ImportedEngine,
    ImportedGroup,
    ImportedModule,
    ImportPlan,
    StateOrigin,
)
from terracrew.errors import Invalid
from terracrew.protocol.spec import ArchiveSource, GitSource, Source
from terracrew.source_rules import git, version_ranges

MAX_DESCRIPTION_CHARACTERS = 2_000
DEFAULT_PROJECT = "Default Project"
"""The project that every organization has. Its workspaces become modules of the group itself."""
_FORGES = {
    "github": "https://github.com/",
    "github_app": "https://github.com/",
    "gitlab_hosted": "https://gitlab.com/",
    "bitbucket_hosted": "https://bitbucket.org/",
}
_ANY_VERSION = ("", "latest")


def plan(organization: HcpOrganization, into: str, engine: ImportedEngine) -> ImportPlan:
    """Return what is made: a group for each project, a module for each workspace, inputs for variables and variable sets."""
    modules = spelling.without_collisions(
        [_module(organization, each, into, engine) for each in organization.workspaces], [into] if into else []
    )
    return ImportPlan(
        f"{len(modules)} workspaces of {organization.name} at {organization.host}",
        tuple(_groups(organization, modules, into)),
        modules,
        (*organization.remarks, *_remarks(organization)),
        (
            "set the values above by hand, and upload the files of modules that have no repository",
            "connect the forge (`terracrew forge create`), and choose what applies its merges (`--pull-request-apply`)",
            "`terracrew group plan GROUP` plans the modules. They should find nothing to change",
            "lock the workspaces at the source (`--lock-source`), so that nobody applies in both places",
        ),
    )


def _groups(organization: HcpOrganization, modules: Sequence[ImportedModule], into: str) -> Iterator[ImportedGroup]:
    root = hcp_variables.to_inputs(into, hcp_variables.of_root(organization))
    if into or root.inputs or root.by_hand:
        words = f"the organization {organization.name} of {organization.host}"
        yield ImportedGroup(into, words if into else "", root.inputs, root.by_hand, root.remarks)
    parents = {each.path.rpartition("/")[0] for each in modules if not each.problem} - {into, ""}
    projects = {
        path: project_id
        for project_id in organization.projects
        if (path := _project_path(organization, project_id, into)) in parents and not organization.is_terracrew
    }
    for path in sorted(parents):
        if project_id := projects.get(path):
            found = hcp_variables.to_inputs(path, hcp_variables.of_project(organization, project_id))
            description = organization.projects[project_id].description[:MAX_DESCRIPTION_CHARACTERS]
            yield ImportedGroup(path, description, found.inputs, found.by_hand, found.remarks)
        else:
            yield ImportedGroup(path)


def _project_path(organization: HcpOrganization, project_id: str, into: str) -> str:
    """Return the group of a project. The default project, and none, are the group itself. Raises Invalid if it can have no path."""
    project = organization.projects.get(project_id)
    if project is None or project.name == DEFAULT_PROJECT:
        return into
    try:
        return spelling.join(into, project.name)
    except Invalid:
        return into


def _check_project(organization: HcpOrganization, project_id: str, into: str) -> None:
    """Raise Invalid if the group of a project would be that of another one, too."""
    project = organization.projects.get(project_id)
    if project is None or project.name == DEFAULT_PROJECT:
        return
    path = spelling.join(into, project.name)
    same = sorted(
        each.name
        for each_id, each in organization.projects.items()
        if _project_path(organization, each_id, into) == path
    )
    if len(same) > 1:
        raise Invalid(
            f"the projects {', '.join(same)} would all become {path}: give them different names at their source"
        )


def _path(organization: HcpOrganization, workspace: HcpWorkspace, into: str) -> str:
    if organization.is_terracrew:
        return spelling.join(into, *workspace.attributes.name.split("."))
    _check_project(organization, workspace.project_id, into)
    return spelling.join(_project_path(organization, workspace.project_id, into), workspace.attributes.name)


def _module(
    organization: HcpOrganization, workspace: HcpWorkspace, into: str, engine: ImportedEngine
) -> ImportedModule:
    given = workspace.attributes
    label = spelling.label(f"{organization.host}/{organization.name}/{workspace.id}")
    try:
        path = _path(organization, workspace, into)
    except Invalid as error:
        return ImportedModule(
            origin=given.name,
            new=NewModule(path="", source=ArchiveSource("")),
            problem=workspace.problem or error.message,
        )
    remarks: list[str] = []
    source = _source(workspace, remarks)
    labels = [each for each in workspace.labels if spelling.is_label(each)]
    remarks += [f"the tag {each[:100]!r} cannot be a label here" for each in workspace.labels if each not in labels]
    has_group = not organization.is_terracrew and _project_path(organization, workspace.project_id, into) != into
    if len(labels) >= MAX_LABELS:
        remarks.append(
            f"it has {len(labels)} tags, and a module has at most {MAX_LABELS} labels: the last ones are left out"
        )
    found = hcp_variables.to_inputs(path, hcp_variables.of_workspace(organization, workspace, has_group=has_group))
    needs_approval = not given.auto_apply or bool(found.by_hand)
    if given.auto_apply and found.by_hand:
        remarks.append(
            "it applies by itself there; here each plan needs an approval, because values have to be set by hand first "
            "(then: --no-needs-approval)"
        )
    new = NewModule(
        path=path,
        source=source,
        description=(given.description or "")[:MAX_DESCRIPTION_CHARACTERS],
        engine=engine,
        engine_version=_version(given.terraform_version or "", engine, remarks),
        needs_approval=needs_approval,
        command_line="terminal" if given.execution_mode == "local" else "runners",
        watch=_watch(workspace, remarks) if isinstance(source, GitSource) else [],
        labels=[label, *labels][:MAX_LABELS],
        pull_request_plans=False if given.speculative_enabled is False else None,
    )
    state = workspace.state
    return ImportedModule(
        origin=given.name,
        new=new,
        inputs=found.inputs,
        by_hand=found.by_hand,
        state=None if state is None else StateOrigin(workspace.id, state.serial),
        remarks=(*remarks, *found.remarks, *_left(workspace)),
        problem=workspace.problem,
    )


def _source(workspace: HcpWorkspace, remarks: list[str]) -> Source:
    given = workspace.attributes
    folder = (given.working_directory or "").strip("/").removeprefix("./")
    if given.vcs_repo is None:
        remarks.append("it has no repository: upload its files (`terracrew module update PATH --from DIR`)")
        return ArchiveSource("", folder)
    url = _address(given.vcs_repo)
    branch = given.vcs_repo.branch or ""
    problem = git.url_problem(url) if url else "the host does not tell the address of its repository"
    if not problem and branch:
        problem = git.ref_problem(branch)
    if problem:
        remarks.append(
            f"its repository {given.vcs_repo.identifier or ''} cannot be taken over ({problem}): give it with "
            "`terracrew module update PATH --git URL`"
        )
        return ArchiveSource("", folder)
    if given.vcs_repo.tags_regex:
        remarks.append(f"its runs start at tags like {given.vcs_repo.tags_regex!r}; here it follows the branch")
    return GitSource(url=url, branch=branch, subdirectory=folder, submodules=given.vcs_repo.ingress_submodules)


def _address(repository: HcpRepository) -> str:
    if repository.repository_http_url:
        return repository.repository_http_url
    base = _FORGES.get(repository.service_provider or "", "")
    return f"{base}{repository.identifier}" if base and repository.identifier else ""


def _version(text: str, engine: ImportedEngine, remarks: list[str]) -> str:
    if text in _ANY_VERSION:
        return ""
    if engine == "tofu":
        remarks.append(f"its version of Terraform, {text[:50]}, is not one of OpenTofu: any version may run its jobs")
        return ""
    try:
        version_ranges.parse_range(text)
    except Invalid:
        remarks.append(
            f"its version of Terraform, {text[:50]!r}, is not a range of versions: any version may run its jobs"
        )
        return ""
    return text


def _watch(workspace: HcpWorkspace, remarks: list[str]) -> list[str]:
    """Return which files count, as patterns like those of a `.gitignore`."""
    given = workspace.attributes
    folder = (given.working_directory or "").strip("/")
    if given.file_triggers_enabled is False:
        return ["**"] if folder else []
    patterns = [f"/{each.lstrip('/')}" for each in given.trigger_patterns or () if each.strip("/")]
    prefixes = [f"/{each.strip('/')}/**" for each in given.trigger_prefixes or () if each.strip("/")]
    if prefixes and folder:
        prefixes.append(f"/{folder}/**")
    found = [*patterns, *prefixes]
    if len(found) > MAX_WATCH_PATTERNS or any(len(each) > MAX_WATCH_CHARACTERS for each in found):
        remarks.append(f"its {len(found)} patterns of files are too many or too long: those of its folder count")
        return []
    return found


def _left(workspace: HcpWorkspace) -> Iterator[str]:
    if workspace.has_agents:
        yield "it runs on an agent pool: register a runner near it, and give runner and module the same tag"
    if workspace.teams:
        yield f"teams may use it: {', '.join(workspace.teams)}. Roles give people their rights here (`terracrew role`)"
    if workspace.triggered_by:
        yield (
            f"runs of {', '.join(workspace.triggered_by)} start its runs: here an input that is an output of theirs does "
            "(`input set --output`, `--triggers auto`)"
        )
    if workspace.consumers:
        yield (
            f"{', '.join(workspace.consumers)} may read its state: give them outputs as inputs (`input set --output`), or let "
            "`terraform_remote_state` read it here (docs/moving-in.md)"
        )


def _remarks(organization: HcpOrganization) -> Iterator[str]:
    shared = [each.attributes.name for each in organization.workspaces if each.attributes.global_remote_state]
    if shared:
        shown = ", ".join(sorted(shared)[:10])
        more = f" and {len(shared) - 10} more" if len(shared) > 10 else ""
        yield f"every workspace may read the states of {shown}{more}: here, each use of an output is an input"
