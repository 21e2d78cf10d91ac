"""Discovery: rules that make modules from the folders of a repository, and what each of them has found."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.modules import EngineVersion
from terracrew.api.tags import Tags

DiscoveryEngine = Literal["tofu", "terraform", "pulumi"]
FolderState = Literal["new", "made", "gone", "kept", "deleted", "conflict", "invalid"]
"""`new`: a module is made of it. `made`: the rule has made one. `gone`: the rule has made one, and the folder is gone. `kept`: another
module of the group has it as its source. `deleted`: somebody has deleted the module that the rule made. `conflict`: its path is taken.
`invalid`: its name cannot be a module's path."""
MAX_PATTERNS = 50
MAX_NAME_CHARACTERS = 100
FolderPattern = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]


class DiscoverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a rule."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARACTERS), Field(metavar="NAME")]
    """What people call it. Each name exists once in a group."""
    include: Annotated[
        list[FolderPattern],
        msgspec.Meta(min_length=1, max_length=MAX_PATTERNS),
        Field(label="Folders", option="--include", metavar="PATTERN"),
    ] = msgspec.field(default_factory=lambda: ["**"])
    """Which folders become modules, as patterns: `*` is any name, `**` any number of folders, `.` the top of the repository."""
    exclude: Annotated[
        list[FolderPattern],
        msgspec.Meta(max_length=MAX_PATTERNS),
        Field(label="Folders left out", option="--exclude", metavar="PATTERN"),
    ] = msgspec.field(default_factory=lambda: ["**/modules/**", "**/examples/**"])
    """Which of these folders do not, as patterns of the same kind."""
    module_path: Annotated[str, msgspec.Meta(min_length=1, max_length=300), Field(metavar="TEMPLATE")] = "{path}"
    """The path of a module below the group: `{path}` is its folder, with a group for each folder on the way, `{flat}` is the same with
    `-` in place of `/`, and `{dir}` is the name of the folder alone."""
    engine_version: Annotated[EngineVersion, Field(metavar="RANGE")] = ""
    """The versions of the engine that new modules run with: one (`1.12.6`) or a range (`~> 1.12`); empty for any."""
    tags: Annotated[Tags, Field(option="--tag", metavar="TAG")] = msgspec.field(default_factory=list[str])
    """The tags that runners of new modules must have."""
    credential: Annotated[str, msgspec.Meta(max_length=255), Field(metavar="VARIABLE")] = ""
    """The environment variable of new modules, best a secret of the group, with what runners fetch the repository with."""
    needs_approval: Annotated[bool, Field(label="Each plan needs an approval")] = False
    """Whether a person must approve each plan of a new module before it is applied."""
    plans_new: Annotated[bool, Field(label="Plan new modules", option="--plans-new")] = True
    """Whether a PLAN is queued for each new module."""
    is_enabled: Annotated[bool, Field(label="Enabled", option="--enabled")] = True
    """Whether it makes modules by itself."""


class NewDiscoveryRule(DiscoverySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule to make. The group, the repository, its branch and the engine stay: another one is another rule."""

    group: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    """The path of the group that the modules are made in; empty for the organization."""
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000), Field(label="Repository", metavar="URL")]
    """The address of the repository, as sources of modules have it. A connection to a forge of the group or above must serve it."""
    branch: Annotated[str, msgspec.Meta(max_length=240), Field(metavar="NAME")] = ""
    """The branch; empty for the default branch of the repository."""
    engine: DiscoveryEngine = "tofu"
    """The engine of the modules. Only folders with a configuration of this engine are found."""


@fields.change
class DiscoveryChange(DiscoverySettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. Modules that exist stay as they are."""


class DiscoveryRuleView(DiscoverySettings, frozen=True, kw_only=True):
    """A rule as people see it."""

    id: str
    organization_id: str
    group_id: str
    path: str
    """The path of its group and its name."""
    group: str
    """The path of its group; empty for the organization."""
    url: str
    branch: str
    engine: DiscoveryEngine
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime
    commit_id: str
    """The commit whose folders were found last; empty if none was yet."""
    looked_at: datetime | None
    """When that was."""
    problem: str
    """Why nothing was made then, and what to do; empty if all is well."""
    counts: dict[FolderState, int] = {}
    """How many of the folders that it has found are in each state."""


class DiscoveredFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder of the repository that a rule has found."""

    folder: str
    """Its path in the repository; empty for the top."""
    path: str
    """The path of its module."""
    state: FolderState
    module_id: str | None = None
    reason: str = ""
    """Why no module is made of it."""


class DiscoveryRuleDetails(DiscoveryRuleView, frozen=True, kw_only=True):
    """A rule with what it has found."""

    folders: list[DiscoveredFolder]


class DiscoveryPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would make of the newest commit. Nothing was made."""

    commit_id: str
    branch: str
    problem: str
    """Why it would make nothing, although it has found folders: too many, for example."""
    folders: list[DiscoveredFolder]
