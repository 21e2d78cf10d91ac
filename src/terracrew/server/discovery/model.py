"""The rows of this package."""

from datetime import datetime

import msgspec

from terracrew.api.discovery import DiscoveredFolder, DiscoveryEngine, DiscoverySettings
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import tree_path as paths


class DiscoveryRule(DiscoverySettings, frozen=True, kw_only=True):
    """A rule. It belongs to a group, and makes modules in it and below."""

    id: str
    organization_id: str
    group_id: str
    group: str = ""
    """The path of its group; empty for the organization."""
    url: str
    branch: str = ""
    engine: DiscoveryEngine = "tofu"
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime
    revision: int = 1
    """It increases with every change that a person makes."""
    repository_id: str | None = None
    seen_default: str = ""
    """The newest known commit of the repository's default branch when it was looked at last."""
    commit_id: str = ""
    """The commit whose folders were found last."""
    looked_at: datetime | None = None
    problem: str = ""
    due_at: datetime | None = None
    failures: int = 0
    lease_holder: str | None = None
    lease_until: datetime | None = None

    @property
    def path(self) -> str:
        return paths.join(self.group, self.name)

    @property
    def principal(self) -> Principal:
        """Who the rule acts as. It makes modules in its group and below only: `naming` makes all of their paths."""
        return Principal("system", self.id, f"discovery rule {self.name}", self.organization_id)


class RuleFolder(DiscoveredFolder, frozen=True, kw_only=True):
    """A folder that a rule has found, as it is stored."""

    rule_id: str
    changed_at: datetime


class FolderPlan(msgspec.Struct, frozen=True):
    """What a rule makes of the folders of a commit."""

    folders: list[DiscoveredFolder]
    problem: str = ""
    """Why nothing is made of those that are new."""

    @property
    def new(self) -> list[DiscoveredFolder]:
        return [] if self.problem else [each for each in self.folders if each.state == "new"]
