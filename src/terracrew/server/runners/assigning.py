"""Checks that a runner may be assigned to a place of the tree: the place must be inside the runner's own group."""

from terracrew.api.place_settings import PlaceKind
from terracrew.api.runners import Runner
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.assignments import store as assignments
from terracrew.server.db.seam import Tx
from terracrew.server.tree.groups.tree_path import is_within


async def assign(tx: Tx, runner: Runner, place_id: str, kind: PlaceKind, organization_id: str, path: str) -> bool:
    """Let a place use the runner. Returns False if it already could. A runner serves nothing outside its own group."""
    if runner.is_shared:
        raise Conflict(f"`{runner.path}` is shared: it serves every module and takes no assignments")
    if runner.removing_since is not None:
        raise Conflict(f"`{runner.path}` is being removed: undrain it first, which stops the removal")
    if organization_id != runner.organization_id:
        raise NotFound(f"there is no {kind} `{path}` here, or you may not see it")
    own = runner.group or ""
    if not is_within(path, own):
        place = f"{kind} `{path}`" if path else "the organization"
        raise Invalid(f"{place} is outside of `{own}`: a runner can only be assigned inside its own group")
    return await assignments.insert(tx, runner.id, place_id, kind, organization_id, path)
