"""Takes the mark from modules that a rule has marked, when nobody looks at their folders any more."""

from terracrew.errors import TerracrewError
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, looking, reads, store
from terracrew.server.discovery.model import DiscoveryRule
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.modules import service as modules


async def unmark(tx: Tx, rule: DiscoveryRule) -> None:
    """Take the mark from the modules of a rule that ends or is disabled, except those that another enabled rule marks."""
    marked = await _made(tx, rule)
    try:
        at = await looking.repository_of(tx, rule)
    except TerracrewError:
        pass  # its connection is gone: what the rule has made is enough
    else:
        branch = rule.branch or at.repository.default_branch
        others = [each for each in await reads.of_repository(tx, at.repository, branch) if each.id != rule.id]
        made_by_others = {module_id for other in others for module_id in await _made(tx, other)}
        for each in await reads.tracked_modules(tx, at.repository, branch):
            if each.id in made_by_others or any(paths.is_within(each.path, other.group) for other in others):
                marked.discard(each.id)
            elif each.source_gone and paths.is_within(each.path, rule.group):
                marked.add(each.id)
    for module_id in sorted(marked):
        await modules.mark_source(tx, rule.principal, module_id, None, "")


async def _made(tx: Tx, rule: DiscoveryRule) -> set[str]:
    """Return the modules that a rule has made."""
    rows = await store.folders_of(tx, rule.id)
    return {each.module_id for each in rows if each.module_id is not None and decide.is_made(each)}
