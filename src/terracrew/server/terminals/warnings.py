"""What a person at the prompt should know before the plan of their run."""

from terracrew.api.modules import Module
from terracrew.protocol.spec import ArchiveSource
from terracrew.server.db.seam import Tx
from terracrew.server.runs import module_view
from terracrew.server.terminals.model import TerminalRun
from terracrew.server.tree.modules import policy
from terracrew.wording import module_words

ACTION = "changed_policy_enforcements"
"""Of all events of a run, the clients print the descriptions of those with this action."""


async def before_plan(tx: Tx, module: Module, run: TerminalRun, url: str) -> list[str]:
    """Return what does not stop the plan and may stop or surprise what follows."""
    found: list[str] = []
    page = f"{url}/dashboard/modules/{module.id}"
    if await module_view.is_in_doubt(tx, module.id):
        found.append(
            f"The module {module.path} is in doubt: an earlier change was cut short, and what it made may be in no state. "
            f"Every plan waits for a person who has looked at that: {page}"
        )
    rules = await policy.of_module(tx, module.id)
    if not run.is_plan_only and rules.min_approvals > 1:
        found.append(
            f"A change of {module.path} needs {rules.min_approvals} approvals. Your yes is one only if you may approve it: {page}"
        )
    elif not run.is_plan_only and module.needs_approval:
        found.append(f"A change of {module.path} needs an approval. Your yes is one only if you may approve it: {page}")
    if not run.is_plan_only and not isinstance(module.source, ArchiveSource):
        source = module_words.described_source(module.source)
        found.append(
            f"The source of {module.path} is {source}. This run applies the files of your directory instead, and the next job of the "
            "module runs its own source again."
        )
    return found
