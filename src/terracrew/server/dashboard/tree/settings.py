"""What the settings of groups and modules say about the places above: rules that apply there, limits, dispatchers and cloud logins."""

from collections.abc import Mapping, Sequence

from terracrew.api.groups import Group
from terracrew.server.dashboard import words
from terracrew.server.dashboard.field_forms import FieldContext
from terracrew.server.dashboard.tree.words import cloud_names, dispatcher_phrases, limit_phrases
from terracrew.server.tree.groups.inheritance import EffectiveRule

DISPATCHERS = ("local", "docker", "kubernetes", "ecs")
_ANSWERS = [("yes", "Yes"), ("no", "No")]
_INTERRUPTED = [("ask", "Ask a person before anything is changed again"), ("retry", "Retry without asking")]


def place_name(group: Group) -> str:
    return group.path or "the organization"


def describe_rules(above: Mapping[str, EffectiveRule]) -> dict[str, FieldContext]:
    """Return what to say about each approval rule: what applies without one here, and what has no effect."""
    return {name: _describe_rule(name, it) for name, it in above.items()} | {
        "dispatcher.name": FieldContext(offers=DISPATCHERS)
    }


def _describe_rule(name: str, it: EffectiveRule) -> FieldContext:
    value, origin = words.group_setting(name, it.value), "" if it.origin is None else place_name(it.origin)
    if name not in ("interrupted", "self_approval", "service_account_approval"):
        return FieldContext(f"If empty: {value}{f', from {origin}' if origin else ''}.")
    options = [("", f"Not set: {value}"), *(_INTERRUPTED if name == "interrupted" else _ANSWERS)]
    is_strict = it.value == "ask" or it.value is False
    weaker = "Retry" if name == "interrupted" else "Yes"
    note = f"{weaker} has no effect here, because {origin} says {value}." if origin and is_strict else ""
    return FieldContext(note, options=options)


def describe_above(above: Sequence[Group]) -> dict[str, list[str]]:
    """Return what the groups above a place say, the nearest first, by the section of the settings."""
    phrases = {
        "limits": [(each, limit_phrases(each.limits)) for each in above],
        "dispatcher": [(each, dispatcher_phrases(each.dispatcher)) for each in above],
        "cloud": [(each, cloud_names(each.cloud)) for each in above],
    }
    return {
        section: [f"In {place_name(each)}: {', '.join(said)}" for each, said in found if said]
        for section, found in phrases.items()
    }
