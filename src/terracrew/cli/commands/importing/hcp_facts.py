"""What an organization of HCP Terraform, or of a host like it, says of itself, as far as an import needs it."""

import msgspec


class HcpVariable(msgspec.Struct, frozen=True, rename="kebab"):
    key: str
    value: str | None = None
    category: str = "terraform"
    hcl: bool = False
    sensitive: bool = False


class HcpRepository(msgspec.Struct, frozen=True, rename="kebab"):
    identifier: str | None = None
    branch: str | None = None
    repository_http_url: str | None = None
    service_provider: str | None = None
    ingress_submodules: bool = False
    tags_regex: str | None = None


class HcpWorkspaceAttributes(msgspec.Struct, frozen=True, rename="kebab"):
    name: str
    description: str | None = None
    execution_mode: str | None = "remote"
    terraform_version: str | None = None
    working_directory: str | None = None
    auto_apply: bool = False
    file_triggers_enabled: bool | None = None
    trigger_patterns: list[str] | None = None
    trigger_prefixes: list[str] | None = None
    speculative_enabled: bool | None = True
    global_remote_state: bool | None = False
    tag_names: list[str] | None = None
    vcs_repo: HcpRepository | None = None


class HcpStateVersion(msgspec.Struct, frozen=True, rename="kebab"):
    """What is known of a state before it is downloaded. Not every host says how large it is, or its MD5."""

    serial: int
    hosted_state_download_url: str | None = None
    size: int | None = None
    md5: str | None = None


class HcpWorkspace(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    attributes: HcpWorkspaceAttributes
    project_id: str = ""
    has_agents: bool = False
    variables: tuple[HcpVariable, ...] = ()
    state: HcpStateVersion | None = None
    labels: tuple[str, ...] = ()
    """Its tags with a value, as `key=value`, and those without."""
    teams: tuple[str, ...] = ()
    """Which teams may do what, in words."""
    triggered_by: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    """Which workspaces may read its state."""
    problem: str = ""
    """Why it cannot be read as a whole; empty if it can."""


class HcpProject(msgspec.Struct, frozen=True):
    name: str
    description: str = ""


class HcpVariableSet(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    is_global: bool = False
    has_priority: bool = False
    """Whether its variables take precedence over those of workspaces."""
    project_ids: frozenset[str] = frozenset()
    workspace_ids: frozenset[str] = frozenset()
    variables: tuple[HcpVariable, ...] = ()


class HcpOrganization(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    name: str
    is_terracrew: bool = False
    """Whether its names of workspaces are paths, with dots in place of slashes."""
    projects: dict[str, HcpProject] = {}
    variable_sets: tuple[HcpVariableSet, ...] = ()
    workspaces: tuple[HcpWorkspace, ...] = ()
    remarks: tuple[str, ...] = ()
