"""Masks the parts of an event's fact that are text for people. Addresses of states, hashes and statuses stay as they are."""

import msgspec

from terracrew.masking.redactor import Redactor
from terracrew.protocol.events import Fact, Output, OutputsRead, PlanSummary, ResourceChange, Result, SourceResolved

replace = msgspec.structs.replace


def masked(fact: Fact, redactor: Redactor) -> Fact:
    """Return the fact without the secrets in its texts. Outputs are data; `hide_outputs` handles them."""
    match fact:
        case Result():
            return replace(fact, message=redactor.mask_text(fact.message))
        case SourceResolved():
            texts = redactor.mask_text(fact.description), redactor.mask_text(fact.revision)
            return replace(fact, description=texts[0], revision=texts[1])
        case PlanSummary():
            outputs = {redactor.mask_text(name): action for name, action in fact.outputs.items()}
            return replace(fact, resources=[_change(each, redactor) for each in fact.resources], outputs=outputs)
        case _:
            return fact


def _change(change: ResourceChange, redactor: Redactor) -> ResourceChange:
    address, detail = redactor.mask_text(change.address), redactor.mask_text(change.detail)
    return ResourceChange(address, change.action, detail)


def hide_outputs(outputs: OutputsRead, redactor: Redactor) -> OutputsRead:
    """Mark each output that holds a secret as sensitive. Its value is unchanged, but not shown to everybody."""
    if not redactor or not _has_secret(outputs.outputs, redactor):
        return outputs
    hidden = {
        name: replace(one, is_sensitive=True) if _has_secret({name: one}, redactor) else one
        for name, one in outputs.outputs.items()
    }
    return replace(outputs, outputs=hidden)


def _has_secret(outputs: dict[str, Output], redactor: Redactor) -> bool:
    text = msgspec.json.encode({name: one.value for name, one in outputs.items()})
    return redactor.mask(text) is not text
