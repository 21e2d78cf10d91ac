"""Locks a module for an engine at a prompt, unless policies have to look at its plans: they cannot look at one that is made there."""

from terracrew.api.locks import ModuleLock, TakeLock
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.policies import reads as policy_reads
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import locks
from terracrew.server.tree.modules import service as modules


async def take(tx: Tx, who: Principal, reference: str, asked: TakeLock) -> ModuleLock:
    """Lock a module whose plans run at the prompt. The check comes after the lock is held, so no policy is missed."""
    module = await modules.find(tx, who, reference, Verb.STATE_WRITE)
    taken = await locks.take(tx, who, reference, asked)
    enforced = [each for each in await policy_reads.active(tx, module.id) if each.enforcement != "advisory"]
    if enforced and module.command_line == "terminal":
        raise Conflict(
            f"the policy `{enforced[0].path}` looks at each plan of `{module.path}` before it is applied, and cannot look at plans"
            " that run at the prompt: let them run on a runner (`terracrew module update"
            f" {module.path} --command-line runners`)"
        )
    return taken
