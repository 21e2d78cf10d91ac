"""The module registry: the published modules of groups, and their versions, which configurations use by name and version."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field

Readers = Literal["group", "organization"]
"""`group`: the modules in the publishing group and below. `organization`: all modules of the organization."""
MAX_VERSION_CHARACTERS = 64


class PublishedModuleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a published module."""

    description: Annotated[str, msgspec.Meta(max_length=500), Field(metavar="TEXT")] = ""
    """What it is for, in one sentence."""
    readers: Annotated[Readers, Field(label="Who may use it")] = "group"
    """Whose jobs may use it: those of the modules in the group and below (`group`), or all of the organization (`organization`)."""
    url: Annotated[str, msgspec.Meta(max_length=2_000), Field(label="Repository", metavar="URL")] = ""
    """The repository whose tags become versions; empty if versions are uploaded. A connection to a forge of the group or above must
    serve it."""
    folder: Annotated[str, msgspec.Meta(max_length=500), Field(metavar="PATH")] = ""
    """The folder of the repository with the files; empty for its top."""
    tag_prefix: Annotated[str, msgspec.Meta(max_length=200), Field(metavar="PREFIX")] = ""
    """What tags begin with before their version, such as `vpc/` for `vpc/v1.2.3`. A `v` before the version is always allowed."""


class NewPublishedModule(PublishedModuleSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A published module to make. The group, the name and the system make its address, so they stay."""

    group: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    """The path or the id of the group that publishes it."""
    name: Annotated[str, msgspec.Meta(max_length=64)]
    """Its name, of lowercase letters, digits, and hyphens and underscores between them."""
    system: Annotated[str, msgspec.Meta(max_length=64)]
    """What it is mainly for: `aws`, `kubernetes`, `null`; lowercase letters and digits."""


@fields.change
class PublishedModuleChange(PublishedModuleSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. Versions that exist stay as they are."""


class RefusedTag(msgspec.Struct, frozen=True):
    """A tag that did not become a version."""

    tag: str
    commit_id: str
    reason: str


class PublishedModuleView(PublishedModuleSettings, frozen=True, kw_only=True):
    """A published module as people see it."""

    id: str
    organization_id: str
    group_id: str
    group: str
    """The path of the group that publishes it."""
    name: str
    system: str
    path: str
    """The path of its group, its name and its system."""
    address: str
    """What configurations write after the host: `namespace/name/system`. The namespace is the path of the group with `_` for `/`."""
    latest: str
    """Its highest version that is neither withdrawn nor a pre-release; empty if there is none."""
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime
    looked_at: datetime | None
    """When the tags of its repository were read last."""
    problem: str
    """Why that failed, and what to do; empty if all is well."""
    refused_tags: list[RefusedTag]
    """The tags that did not become versions, and why. Lists leave them out."""


class NewPublishedVersion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version to publish. It never changes afterwards."""

    version: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_VERSION_CHARACTERS)]
    """Three numbers, such as `1.2.3`, and perhaps a pre-release: `2.0.0-rc.1`."""
    archive_id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    """The id of an archive with its files, which the caller has uploaded (`POST /archives`)."""


class PublishedVersionChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a version is withdrawn. Nothing else of it ever changes."""

    is_withdrawn: bool
    """Whether no engine gets it any more. Its number stays taken."""
    reason: Annotated[str, msgspec.Meta(max_length=500)] = ""
    """Why it is withdrawn, for those who use it."""


class PublishedVersionView(msgspec.Struct, frozen=True, kw_only=True):
    """A version as people see it."""

    id: str
    version: str
    sha256: str
    """The SHA-256 of its archive, in hexadecimal digits."""
    size: int
    """How many bytes its archive has."""
    tag: str
    """The tag that it was made of; empty if it was uploaded."""
    commit_id: str
    """The commit of that tag when it was made."""
    moved_to: str
    """The commit that the tag names now, if somebody has moved it. The version still has the files of the first one."""
    is_withdrawn: bool
    withdrawn_at: datetime | None
    withdrawn_reason: str
    created_by_name: str
    created_at: datetime


class DocumentedInput(msgspec.Struct, frozen=True, kw_only=True):
    """A variable of a published module."""

    name: str
    type: str
    """Its type as it is written; empty if any is accepted."""
    description: str
    default: str | None
    """Its default as it is written; null if it must be given."""
    is_sensitive: bool


class DocumentedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of a published module."""

    name: str
    description: str
    is_sensitive: bool


class DocumentedRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """A provider that a published module needs, or another module that it uses."""

    name: str
    source: str
    version: str
    """The range of versions; empty for any."""


class FolderDocumentation(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a folder say of themselves."""

    folder: str
    """Its path; empty for the module itself."""
    readme: str
    inputs: list[DocumentedInput]
    outputs: list[DocumentedOutput]
    providers: list[DocumentedRequirement]
    modules: list[DocumentedRequirement]
    resources: list[str]
    """The types and names of the resources that it manages, such as `aws_vpc.this`."""
    engine_version: str
    """The versions of the engine that it works with; empty for any."""
    problems: list[str]
    """The files that could not be read, and why."""


class DocumentedExample(msgspec.Struct, frozen=True, kw_only=True):
    """A folder below `examples`."""

    name: str
    readme: str
    main: str
    """Its configuration."""


class ModuleDocumentation(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a version from its files. No engine has run."""

    main: FolderDocumentation
    submodules: list[FolderDocumentation]
    """The folders below `modules`, which configurations may use by themselves."""
    examples: list[DocumentedExample]


class PublishedVersionDetails(PublishedVersionView, frozen=True, kw_only=True):
    """A version with its documentation."""

    documentation: ModuleDocumentation | None
    """Null if the files could not be read."""


class PublishedModuleUse(msgspec.Struct, frozen=True, kw_only=True):
    """A module whose jobs have fetched a version with their own tokens."""

    module_id: str
    module: str
    """The path of the module."""
    version: str
    is_withdrawn: bool
    """Whether this version is withdrawn by now."""
    job_id: str
    """The last job that has fetched it."""
    first_at: datetime
    """When a job has fetched it first."""
    fetched_at: datetime
    """When a job has fetched it last. Engines fetch again only what they have not kept from an earlier job."""


class PublishedModuleDetails(PublishedModuleView, frozen=True, kw_only=True):
    """A published module with its versions, the highest first."""

    versions: list[PublishedVersionView]
