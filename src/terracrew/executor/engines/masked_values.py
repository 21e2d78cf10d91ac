"""Masks decoded JSON values, so that a document about a plan can be given to hooks."""

import re
from decimal import Decimal
from typing import Any

import msgspec

from terracrew.masking.redactor import MASK
from terracrew.plan_diff.values import Hidden, Mask, is_list, is_object

SHOWN = MASK.decode()
"""What a hook sees in place of a sensitive value."""
decode = msgspec.json.Decoder(float_hook=Decimal).decode
encode = msgspec.json.Encoder(decimal_format="number").encode
"""Numbers keep all their digits between the two."""
_WORD = "[A-Za-z]*(?:[0-9]+[A-Za-z]*)?"
_ATTRIBUTE_NAME = re.compile(f"{_WORD}(?:_{_WORD})*")
"""A key that may be the name of an attribute: `cidr_blocks`, `hostNetwork`. Keys and tokens that were made at random do not look so."""


def masked(value: Any, mask: Mask) -> Any:
    """Return a value with its sensitive parts (`Hidden`) and the secrets in its texts and numbers replaced. A sensitive value that is
    not set stays null."""
    match value:
        case str():
            return mask(value)
        case Hidden():
            return None if value.value is None else SHOWN
        case bool() | None:
            return value
        case int() | Decimal():
            return value if mask(text := str(value)) == text else SHOWN
        case _ if is_object(value):
            return _masked_object(value, mask)
        case _ if is_list(value):
            return [masked(each, mask) for each in value]
        case _:
            raise TypeError(f"{type(value)} is not a value of JSON")


def _masked_object(value: dict[str, Any], mask: Mask) -> dict[str, Any]:
    """Mask the keys, too, except names of attributes: a module could choose the secret `cidr_blocks`, and no policy would find that
    attribute. Keys that look the same afterwards stay apart, so that nothing disappears."""
    found: dict[str, Any] = {}
    for name, each in value.items():
        shown = name if _ATTRIBUTE_NAME.fullmatch(name) else mask(name)
        while shown in found:
            shown += SHOWN
        found[shown] = masked(each, mask)
    return found
