"""Hides values of inputs that look like secrets, and restores them when a person sends them back hidden."""

from typing import Any, cast

from terracrew.errors import Invalid
from terracrew.masking import names
from terracrew.masking.redactor import MASK, Redactor

HIDDEN = MASK.decode()
"""Stands for a value that is stored but not shown. If a person sends it back, the stored value is kept."""
_MISSING = object()


def refuse_hidden(what: str, name: str) -> None:
    """Refuse a hidden value of this name for which no value is stored; an empty name says that there is none."""
    if name:
        raise Invalid(
            f"{what}: {name} is `{HIDDEN}`, which stands for a value that is stored, and none is stored: give the value",
            field=name,
        )


def shown_inputs(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the values as people see them."""
    redactor = Redactor(names.secrets_of(inputs))
    return {name: _masked(value, redactor, is_hidden=names.is_secret(name)) for name, value in inputs.items()}


def _masked(value: Any, redactor: Redactor, *, is_hidden: bool) -> Any:
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        return {
            name: _masked(each, redactor, is_hidden=is_hidden or names.is_secret(name)) for name, each in found.items()
        }
    if isinstance(value, list):
        return [_masked(each, redactor, is_hidden=is_hidden) for each in cast("list[Any]", value)]
    if is_hidden and value is not None and not isinstance(value, bool):
        return HIDDEN
    return redactor.mask_text(value) if isinstance(value, str) else value


def restored(given: Any, shown: Any, stored: Any) -> Any:
    """Return what a person sent, with the stored value wherever they sent back what they were shown in its place."""
    if given == shown:
        return stored
    if isinstance(given, dict) and isinstance(shown, dict):
        seen, kept = cast("dict[str, Any]", shown), cast("dict[str, Any]", stored)
        found = cast("dict[str, Any]", given)
        return {name: restored(each, seen.get(name, _MISSING), kept.get(name)) for name, each in found.items()}
    if isinstance(given, list) and isinstance(shown, list):
        found, seen, kept = cast("list[Any]", given), cast("list[Any]", shown), cast("list[Any]", stored)
        if len(found) == len(seen):
            return [restored(*each) for each in zip(found, seen, kept, strict=True)]
    return cast("Any", given)


def still_hidden(values: dict[str, Any], *, is_secret: bool = False) -> str:
    """Return the name of a masked value for which no value is stored; '' if there is none."""
    level: list[tuple[str, bool, Any]] = [
        (name, is_secret or names.is_secret(name), each) for name, each in values.items()
    ]
    while level:
        below: list[tuple[str, bool, Any]] = []
        for name, is_hidden, value in level:
            if is_hidden and value == HIDDEN:
                return name
            if isinstance(value, dict):
                found = cast("dict[str, Any]", value)
                below += [(f"{name}.{key}", is_hidden or names.is_secret(key), each) for key, each in found.items()]
            elif isinstance(value, list):
                below += [(name, is_hidden, each) for each in cast("list[Any]", value)]
        level = below
    return ""
