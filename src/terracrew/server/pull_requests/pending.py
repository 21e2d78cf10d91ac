"""Finds the modules that the merge of a pull request makes, by the discovery rules of its target branch. It makes none."""

import asyncio
from collections.abc import Sequence

from terracrew.api.pull_requests import PendingModule
from terracrew.errors import TooLarge
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, finding
from terracrew.server.discovery import reads as discovery_reads
from terracrew.server.discovery.finding import CommitFolders
from terracrew.server.discovery.model import DiscoveryRule
from terracrew.server.git.configured_commits import ConfiguredCommit
from terracrew.server.pull_requests.looking import Looking, SourceLook
from terracrew.server.pull_requests.model import PullRequestSubject
from terracrew.server.pull_requests.tools import PullRequestTools

MAX_PENDING = decide.MAX_NEW_MODULES
"""How many of them are kept of one pull request."""


async def find(
    tools: PullRequestTools, looking_at: Looking, subject: PullRequestSubject, look: SourceLook
) -> list[PendingModule]:
    """Return what becomes of the folders that the merge adds. Without a merge result there are none."""
    if not look.commit:
        return []
    branch = subject.facts.base_branch
    rules = await tools.db.read(lambda tx: discovery_reads.of_repository(tx, subject.repository, branch))
    if not rules:
        return []
    before, after = await looking_at.commits(tools, subject, look)
    found: list[PendingModule] = []
    for rule in rules:
        try:
            new, folders = await asyncio.to_thread(_new, rule, before, after)
        except TooLarge as error:
            found.append(PendingModule(rule=rule.path, folder="", path=rule.group, reason=error.message))
            continue
        if new:
            found += await tools.db.read_in_background(
                lambda tx, rule=rule, new=new, folders=folders: _planned(tx, subject, rule, new, folders)
            )
    return sorted(found, key=lambda each: (each.path, each.rule))[:MAX_PENDING]


def _new(rule: DiscoveryRule, before: ConfiguredCommit, after: ConfiguredCommit) -> tuple[list[str], CommitFolders]:
    """Return the folders that a rule means after the merge and not before it, and all folders after it."""
    known = set(finding.folders(before, rule.engine).meant(rule.include, rule.exclude))
    folders = finding.folders(after, rule.engine)
    return [each for each in folders.meant(rule.include, rule.exclude) if each not in known], folders


async def _planned(
    tx: Tx, subject: PullRequestSubject, rule: DiscoveryRule, new: Sequence[str], folders: CommitFolders
) -> list[PendingModule]:
    repository = subject.repository
    known = await discovery_reads.known_folders(tx, rule, repository, subject.facts.base_branch, new)
    plan = decide.plan(rule, new, folders.configured, repository.name, known)
    if plan.problem:
        return [PendingModule(rule=rule.path, folder="", path=rule.group, reason=plan.problem)]
    added = set(new)
    return [
        PendingModule(rule=rule.path, folder=each.folder, path=each.path, reason=each.reason)
        for each in plan.folders
        if each.folder in added and each.state in ("new", "conflict", "invalid")
    ]
