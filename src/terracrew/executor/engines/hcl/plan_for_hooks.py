"""Masks the document that `show -json PLAN` prints, so that hooks can read it. Its form stays the same.

The document has the values of sensitive variables, attributes and outputs in plain text, with marks beside most of them. Words of
the engine, such as actions and types of resources, are never masked: a module could hide what it destroys by a secret `delete`.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.executor.engines import masked_values
from terracrew.executor.engines.hcl import secret_constants, shown_plan
from terracrew.executor.engines.masked_values import SHOWN
from terracrew.masking.redactor import Redactor
from terracrew.plan_diff import document, resources, values
from terracrew.plan_diff.resources import Values
from terracrew.plan_diff.values import Hidden, Mask, is_list, is_object

_MARKS = {
    "values": "sensitive_values",
    "before": "before_sensitive",
    "after": "after_sensitive",
    "config_values": "config_sensitive",
}
"""The values of resources, changes and actions, and what has the marks for them. A whole state has the key `values`, too."""
_OWNERS_OF_VALUES = ("address", "actions")
"""What has values and no values of others in it: a resource and a change."""
_ONE_MARK = ("value", "default")
"""The values of outputs and the defaults of variables. They are sensitive as a whole, or not at all."""
_WITH_KEYS_OF_VALUES = frozenset(
    {
        "after_identity",
        "after_unknown",
        "before_identity",
        "config_unknown",
        "constant_value",
        "identity",
        *_MARKS.values(),
    }
)
"""What has the keys of values and no marks beside it."""
_BY_NAME = frozenset({"expressions", "module_calls", "output_changes", "outputs", "provider_config", "variables"})
"""Objects whose keys are names in the source, such as that of an output `value`."""
_WORDS = frozenset(
    {
        "action_reason",
        "actions",
        "format_version",
        "kind",
        "mode",
        "name",
        "provider_name",
        "status",
        "terraform_version",
        "type",
    }
)
"""Words that the engine chooses, and names in the source."""
_ADDRESSES = frozenset({"address", "module_address", "previous_address"})
_INSTANCE_KEY = re.compile(r'\["(?:[^"\\]|\\.)*"\]')
"""The only part of an address that is not a word of the engine or a name in the source."""
_OUTPUTS = ("outputs", "output_changes")
_WITHOUT_MARKS = ("configuration", "variables")
"""Sections of the document that do not say which of their values are sensitive."""


_MAX_SINGLE_TEXTS = 1000
"""Up to so many texts, searching for one after the other takes less time than building the patterns of a redactor."""


class _DeclaredVariable(msgspec.Struct):
    sensitive: bool = False


class _GivenVariable(msgspec.Struct):
    value: Any = None


class _RootModule(msgspec.Struct):
    variables: dict[str, _DeclaredVariable] = {}


class _DeclaredConfiguration(msgspec.Struct):
    root_module: _RootModule = msgspec.field(default_factory=_RootModule)


_sections = msgspec.json.Decoder(dict[str, msgspec.Raw])
_configuration = msgspec.json.Decoder(_DeclaredConfiguration)
_variables = msgspec.json.Decoder(dict[str, _GivenVariable])


def masked(printed: bytes, mask: Mask) -> bytes:
    """Raises Invalid if this is not the description of a plan."""
    try:
        sections = _sections.decode(shown_plan.document(printed))
        declared = _configuration.decode(sections.get("configuration", b"{}")).root_module.variables
        variables = _variables.decode(sections.get("variables", b"{}"))
        secret = {
            name: variables[name].value for name, each in declared.items() if each.sensitive and name in variables
        }
        masking = _Masking(printed, _also(mask, values.hidden_texts(Hidden([*secret.values()]), None)))
        # One section after the other, so that not all of a large plan is in memory as objects.
        parts = [
            masked_values.encode(name) + b":" + masked_values.encode(masking.section(name, content, set(secret)))
            for name, content in sections.items()
        ]
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the plan cannot be given to hooks as JSON: {error}") from error
    return b"{" + b",".join(parts) + b"}"


class _Masking:
    def __init__(self, printed: bytes, mask: Mask) -> None:
        self._mask = document.remembering(mask)
        self._of_address: defaultdict[str, set[str]] = defaultdict(set)
        """The sensitive texts of each resource, and of all outputs under no address. Engines do not mark every copy of them: before
        a value became sensitive, it was not, and providers copy values into other attributes."""
        for address, found in shown_plan.every_value(printed):
            if texts := _sensitive_texts(found):
                self._of_address[address] |= texts
        self._of_outputs = _hiding(self._mask, self._of_address[""])
        self._of_all = _also(self._mask, set[str]().union(*self._of_address.values()))

    def section(self, name: str, content: msgspec.Raw, secret_names: set[str]) -> Any:
        found = masked_values.decode(content)
        if name == "variables" and is_object(found):
            found = {each: _with_mark(value, each in secret_names) for each, value in found.items()}
        if name == "configuration":
            found = secret_constants.hidden(found)
        return self._part(name, found, self._of_all if name in _WITHOUT_MARKS else self._mask)

    def _part(self, name: str, found: Any, mask: Mask) -> Any:
        """Return a part of the engine's own structure, whose keys are never masked."""
        if name in _OUTPUTS and mask is self._mask:
            mask = self._of_outputs
        if is_list(found):
            return [self._part(name if name in _WORDS else "", each, mask) for each in found]
        if name in _ADDRESSES and isinstance(found, str):
            return _INSTANCE_KEY.sub(lambda key: mask(key[0]), found)
        if not is_object(found):
            return found if name in _WORDS else masked_values.masked(found, mask)
        if address := found.get("address"):
            known = self._of_address.get(str(address), set[str]())
            own = Values(found.get("values"), before_sensitive=found.get("sensitive_values"))
            mask = _hiding(mask, known | _sensitive_texts(own))
        if name in _BY_NAME:
            return {key: self._part("", each, mask) for key, each in found.items()}
        return {key: self._member(found, key, mask) for key in found}

    def _member(self, owner: Mapping[str, Any], key: str, mask: Mask) -> Any:
        found = owner[key]
        if key in _WITH_KEYS_OF_VALUES:
            return masked_values.masked(found, mask)
        if key in _ONE_MARK:
            return masked_values.masked(Hidden(found) if owner.get("sensitive") is True else found, mask)
        if key in _MARKS and any(each in owner for each in (*_OWNERS_OF_VALUES, _MARKS[key])):
            return masked_values.masked(values.marked(found, None, owner.get(_MARKS[key])), mask)
        return self._part(key, found, mask)


def _with_mark(variable: Any, is_secret: bool) -> Any:
    """Mask the value of a variable that its configuration says is sensitive."""
    if not is_secret or not is_object(variable) or variable.get("value") is None:
        return variable
    return variable | {"value": SHOWN}


def _also(mask: Mask, texts: set[str]) -> Mask:
    """Mask these texts, too, in all forms in which secrets appear."""
    redactor = Redactor(texts)
    return (lambda text: mask(redactor.mask_text(text))) if texts else mask


def _hiding(mask: Mask, texts: set[str]) -> Mask:
    """Mask these texts of one resource, too."""
    return resources.with_hidden(mask, texts) if len(texts) <= _MAX_SINGLE_TEXTS else _also(mask, texts)


def _sensitive_texts(found: Values) -> set[str]:
    if not values.has_mark(found.before_sensitive) and not values.has_mark(found.after_sensitive):
        return set()
    before = values.marked(found.before, None, found.before_sensitive)
    return values.hidden_texts([before, values.marked(found.after, found.unknown, found.after_sensitive)], None)
