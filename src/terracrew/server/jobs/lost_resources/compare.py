"""Compares what a log reports with the current state: what the state records is not lost."""

import re

from terracrew.api.lost_resources import ChangeAction, LostResource, PlannedAction, Remedy
from terracrew.engine_rules import import_blocks
from terracrew.protocol.spec import ImportedResource
from terracrew.server.jobs.lost_resources.model import StoredChange, UnreportedChange
from terracrew.server.logs.chunks import MASK
from terracrew.server.state import document
from terracrew.server.state.instance_ids import InstanceIds

_MASK = MASK.decode()
_REFRESHED: dict[ChangeAction, str] = {
    "changed": "the state may have its old values; the next plan reads it anew",
    "changing": "it may have been changed; the next plan reads it anew",
    "destroyed": "the state still has it; the next plan finds that it is gone",
    "destroying": "it may be gone; the next plan finds out",
}
_PLANNED: dict[PlannedAction, tuple[Remedy, str]] = {
    "planned_create": ("look", "the plan was to create it, and the log ends before that: look whether it exists"),
    "planned_replace": (
        "look",
        "the plan was to replace it, and the log ends before that: look whether there is a new one",
    ),
    "planned_destroy": ("refresh", "the plan was to destroy it, and the log ends before that; the next plan finds out"),
}
_OTHER = "the state has another one at this address: remove the one that is not needed"
_IMPORT_OPTION = ". If it does, give it the option `import: ID` in the program before the next apply"
_NOT_RECORDED = "the state does not have it: import it"
_REPLACED = (
    "the state still has the one that it replaced: --import-lost takes that out of the state before it imports; by hand, "
    "remove it from the state first"
)


def lost(change: StoredChange | UnreportedChange, state: InstanceIds | None, engine: str) -> LostResource | None:
    """Return what is to be done about a change; None if the state records it.

    Without a state, only the order of the events tells whether a change can be in the last one that arrived.
    """
    if isinstance(change, UnreportedChange):
        return _planned(change, state)
    address = import_blocks.checked_address(change.address) or change.address
    is_before_state = change.event <= change.state_event
    if change.action in ("created", "creating"):
        return _created(change, address, state, engine, is_before_state=is_before_state)
    is_there = None if state is None else _has(state, address, change.resource_id)
    if is_there is False or (is_before_state and (state is None or change.action == "changed")):
        return None
    return _listed(change, address, "refresh", _REFRESHED[change.action])


def _created(
    change: StoredChange, address: str, state: InstanceIds | None, engine: str, *, is_before_state: bool
) -> LostResource | None:
    if state is None and is_before_state:
        return None
    there = None if state is None else state.current.get(address)
    is_replaced = bool(there) and there == change.replaced_id
    if there is not None and (there in ("", change.resource_id) or (change.action == "creating" and not is_replaced)):
        return None
    if there is not None and not is_replaced:
        return _listed(change, address, "decide", _OTHER)
    if change.action == "creating":
        text = "its creation was not finished: look whether it exists"
        return _listed(change, address, "look", text + _IMPORT_OPTION if engine == "pulumi" else text)
    if not change.resource_id:
        return _listed(change, address, "look", "the log does not tell its id: look for it, and import it by hand")
    if _MASK in change.resource_id or _MASK in address:
        text = "its id or its address has a secret in it, which is masked: import it by hand"
        return _listed(change, address, "look", text)
    if not import_blocks.checked_address(address) or engine not in import_blocks.ENGINES:
        return _listed(change, address, "look", "it cannot be imported by a block: import it by hand")
    block = import_blocks.block(ImportedResource(address, change.resource_id))
    return _listed(change, address, "import", _REPLACED if is_replaced else _NOT_RECORDED, block)


def _planned(change: UnreportedChange, state: InstanceIds | None) -> LostResource | None:
    is_there = None if state is None else change.address in state.current
    if (change.action, is_there) in (("planned_create", True), ("planned_destroy", False)):
        return None  # a replacement may have been destroyed and not created yet, so the state does not tell about one
    remedy, text = _PLANNED[change.action]
    return _listed(change, change.address, remedy, text)


def _has(state: InstanceIds, address: str, resource_id: str) -> bool:
    """Return whether the state has this resource. An id that is not known is taken for the same one."""
    there = state.current.get(address)
    is_current = there is not None and (there == resource_id or "" in (there, resource_id))
    return is_current or (address, resource_id) in state.deposed


def _listed(
    change: StoredChange | UnreportedChange, address: str, remedy: Remedy, explanation: str, block: str = ""
) -> LostResource:
    is_logged = isinstance(change, StoredChange)
    kind = import_blocks.type_of(address) or document.type_of(address)
    return LostResource(
        attempt=change.attempt,
        address=address,
        action=change.action,
        id=change.resource_id if is_logged else "",
        type=kind,
        provider=re.split("[_:]", kind, maxsplit=1)[0],
        changed_at=change.changed_at if is_logged else None,
        remedy=remedy,
        explanation=explanation,
        import_block=block,
    )
