"""Deletes a module, unless others use its outputs. If it is forced, these keep the last values, so that they can be destroyed."""

from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import module_outputs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.modules import service as modules
from terracrew.wording import module_words


async def delete(tx: Tx, keys: Keyring, who: Principal, reference: str, *, force: bool) -> None:
    """Delete a module. If others use its outputs, or it has jobs or states, `force` is required."""
    module = await modules.find(tx, who, reference, Verb.TREE_WRITE)
    users = await dependencies.users(tx, who, module.id)
    if users and not force:
        raise Conflict(
            f"module `{module.path}` cannot be deleted: {module_words.used_by(users)}. Their jobs would fail: give them other "
            "inputs first, or ask for force=true (--force on the command line)",
            used_by=users,
        )
    if users:
        await module_outputs.keep_last_values(tx, keys, module.id)
    await modules.delete(tx, who, reference, force)
