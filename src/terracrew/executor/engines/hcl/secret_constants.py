"""Finds the constants in the section `configuration` of a plan that are secret, although no mark is beside them.

Those of resources have marks elsewhere in the plan. What is given to a sensitive variable of a called module, to a sensitive output
or to a provider has none.
"""

from collections.abc import Callable, Iterable
from typing import Any

from terracrew.masking import names
from terracrew.plan_diff.values import Hidden, is_list, is_object

_CONSTANT = "constant_value"


def hidden(configuration: Any) -> Any:
    """Return the section with `Hidden` in the place of each such constant."""
    if not is_object(configuration):
        return configuration
    providers = {
        key: _replaced(each, "expressions", lambda found: _hidden_by_name(found, ""))
        for key, each in _members(configuration, "provider_config")
    }
    found = _replaced(configuration, "root_module", _in_module)
    return found | {"provider_config": providers} if providers else found


def _in_module(module: Any) -> Any:
    if not is_object(module):
        return module
    outputs = {
        key: _replaced(each, "expression", _hidden_constant) if _is_sensitive(each) else each
        for key, each in _members(module, "outputs")
    }
    calls = {key: _in_call(each) for key, each in _members(module, "module_calls")}
    return module | {name: each for name, each in (("outputs", outputs), ("module_calls", calls)) if each}


def _in_call(call: Any) -> Any:
    if not is_object(call):
        return call
    sensitive = {key for key, each in _members(call.get("module"), "variables") if _is_sensitive(each)}
    given = {key: _hidden_constant(each) if key in sensitive else each for key, each in _members(call, "expressions")}
    return _replaced(call, "module", _in_module) | ({"expressions": given} if given else {})


def _hidden_constant(expression: Any) -> Any:
    return _replaced(expression, _CONSTANT, Hidden)


def _hidden_by_name(found: Any, name: str) -> Any:
    """Hide what the name of its attribute says is secret, such as `secret_key`: the schema of the provider is not in the plan."""
    if is_object(found):
        return {key: _hidden_by_name(each, name if key == _CONSTANT else key) for key, each in found.items()}
    if is_list(found):
        return [_hidden_by_name(each, name) for each in found]
    return Hidden(found) if isinstance(found, str) and names.is_secret(name) else found


def _is_sensitive(declared: Any) -> bool:
    return is_object(declared) and declared.get("sensitive") is True


def _members(owner: Any, key: str) -> Iterable[tuple[str, Any]]:
    found = owner.get(key) if is_object(owner) else None
    return found.items() if is_object(found) else ()


def _replaced(owner: Any, key: str, change: Callable[[Any], Any]) -> Any:
    return owner | {key: change(owner[key])} if is_object(owner) and key in owner else owner
