"""The words about what is set at a group or a module for its jobs: inputs, hooks and flags; templates see this module as `place_words`."""

from collections.abc import Iterable

import msgspec

from terracrew.api.groups import Group
from terracrew.api.inputs import InputView
from terracrew.api.modules import Module
from terracrew.protocol.cloud import CloudIdentities

MAX_VALUE_CHARACTERS = 300
HIDDEN = "•••"
REMOVES_INPUT = "If a group above has an input of this name, it applies from then on."
ERASES_VALUE = "Its value is erased. A job that waits and would have used it fails before it starts."
DEFINITIONS = {
    "organization_id": "the id of the organization",
    "group_path": "the path of the group",
    "module_path": "the path of the module",
    "module_name": "the name of the module",
    "module_id": "the id of the module",
    "job_number": "the number of the job",
    "job_type": "the type of the job",
    "source_commit": "the commit of the source",
    "source_revision": "the revision of the source",
}
"""What an input can say about the job that it is given to."""
NO_INPUTS = {
    "organization": "Nothing is set for all modules of the organization.",
    "group": "Nothing is set here or in a group above.",
    "module": "Nothing is set here or in a group above. The defaults of the source apply.",
}
SETS_INPUT = {
    "organization": "It applies to all modules of the organization that have none of this name set nearer.",
    "group": "It applies to all modules in and below this group that have none of this name set nearer.",
    "module": "It applies to this module, instead of one of the same name in a group above.",
}
NO_STEP_SETTINGS = "No hooks or flags are added to the steps of jobs here."
SETS_STEP = {
    "organization": "It applies to the jobs of all modules of the organization.",
    "group": "It applies to the jobs of all modules in and below this group.",
    "module": "It applies to the jobs of this module.",
}
REMOVES_STEP_SETTINGS = "The hooks and flags that are set here are removed. Those of other places still apply."


def input_value(found: InputView) -> str:
    """Return a value as the engine's language writes it, shortened; an environment variable is a text as it is."""
    if found.is_hidden:
        return HIDDEN
    is_text = found.target == "environment" and isinstance(found.value, str)
    text: str = found.value if is_text else msgspec.json.encode(found.value).decode()
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[:MAX_VALUE_CHARACTERS] + "…"


def places(lineage: Iterable[Module | Group]) -> list[Module | Group]:
    """Return the places that say something about a dispatcher that applies, from a place and those above it, the nearest first."""
    found: list[Module | Group] = []
    for each in lineage:
        if each.dispatcher:
            found.append(each)
        if not each.dispatcher.inherits:
            break
    return found


def cloud_names(clouds: CloudIdentities) -> list[str]:
    """Return the clouds in which a place or a job has an identity."""
    return list(clouds.audiences())
