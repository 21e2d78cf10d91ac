"""The document of a plan that hooks read, from documents as `show -json` prints them."""

import json
from typing import Any

import pytest

from terracrew.errors import Invalid
from terracrew.executor.engines.hcl import plan_for_hooks
from terracrew.masking.redactor import Redactor

pytestmark = pytest.mark.feature("H1.plan")
SECRET = "correct horse battery"


def change(before: Any, after: Any, *, before_sensitive: Any = False, after_sensitive: Any = False) -> dict[str, Any]:
    actions = ["create"] if before is None else ["delete"] if after is None else ["update"]
    marks = {"before_sensitive": before_sensitive, "after_sensitive": after_sensitive}
    return {"actions": actions, "before": before, "after": after, "after_unknown": {}, **marks}


def resource(name: str, **fields: Any) -> dict[str, Any]:
    return {"address": f"aws_db.{name}", "mode": "managed", "type": "aws_db", "name": name, **fields}


def masked(document: dict[str, Any], *secrets: str) -> dict[str, Any]:
    printed = json.dumps({"format_version": "1.2"} | document).encode()
    return json.loads(plan_for_hooks.masked(printed, Redactor(secrets).mask_text))


def test_every_value_with_a_mark_is_masked_and_what_is_not_set_stays_so() -> None:
    values = {"password": SECRET, "token": None, "size": 7, "users": [{"name": "a", "key": SECRET}], "port": 5432}
    marks = {"password": True, "token": True, "port": True, "users": [{"key": True}]}
    shown = {"password": "***", "token": None, "size": 7, "users": [{"name": "a", "key": "***"}], "port": "***"}
    outputs = {"value": {"sensitive": True, "value": SECRET, "type": "string"}, "plain": {"value": 1}}
    module = {"resources": [resource("a", values=values, sensitive_values=marks)]}
    found = masked(
        {
            "planned_values": {"outputs": outputs, "root_module": {"child_modules": [module]}},
            "prior_state": {"values": {"outputs": outputs, "root_module": module}},
            "resource_changes": [resource("a", change=change(None, values, after_sensitive=marks))],
            "output_changes": {"after": change(None, SECRET, after_sensitive=True)},
        }
    )
    assert SECRET not in json.dumps(found)
    assert found["planned_values"]["root_module"]["child_modules"][0]["resources"][0]["values"] == shown
    assert found["prior_state"]["values"]["root_module"]["resources"][0]["values"] == shown
    assert found["prior_state"]["values"]["outputs"]["value"]["value"] == "***"
    assert found["planned_values"]["outputs"]["plain"] == {"value": 1}
    [planned] = found["resource_changes"]
    assert planned["change"]["after"] == shown
    assert planned["change"]["after_sensitive"] == marks
    assert found["output_changes"]["after"]["after"] == "***"


def test_a_mark_that_does_not_fit_its_value_masks_all_of_it() -> None:
    found = masked({"resource_changes": [resource("a", change=change(None, {"x": SECRET}, after_sensitive=[True]))]})
    assert found["resource_changes"][0]["change"]["after"] == "***"


def test_the_configuration_says_which_variables_are_sensitive() -> None:
    """The section `variables` has the values of all variables in plain text, and no marks."""
    declared = {"given": {"sensitive": True, "default": "the usual one"}, "open": {"default": "anybody"}, "value": {}}
    found = masked(
        {
            "variables": {"given": {"value": 12}, "open": {"value": "anybody"}, "value": {"value": "v"}},
            "configuration": {"root_module": {"variables": declared}},
        }
    )
    assert found["variables"] == {"given": {"value": "***"}, "open": {"value": "anybody"}, "value": {"value": "v"}}
    assert found["configuration"]["root_module"]["variables"] == {
        "given": {"sensitive": True, "default": "***"},
        "open": {"default": "anybody"},
        "value": {},
    }


def test_copies_of_a_sensitive_value_without_a_mark_are_masked() -> None:
    """A value that becomes sensitive has no mark in the state, and a password in the source has none in the configuration."""
    planned = change(
        {"password": SECRET}, {"password": SECRET, "url": f"db://{SECRET}@host"}, after_sensitive={"password": True}
    )
    literal = resource("a", expressions={"name": {"constant_value": "a name"}, "password": {"constant_value": SECRET}})
    state = {
        "values": {"root_module": {"resources": [resource("a", values={"password": SECRET}, sensitive_values={})]}}
    }
    found = masked(
        {
            "resource_changes": [resource("a", change=planned)],
            "prior_state": state,
            "configuration": {"root_module": {"resources": [literal]}},
        }
    )
    assert SECRET not in json.dumps(found)
    assert found["resource_changes"][0]["change"]["after"]["url"] == "db://***@host"
    expressions = found["configuration"]["root_module"]["resources"][0]["expressions"]
    assert expressions == {"name": {"constant_value": "a name"}, "password": {"constant_value": "***"}}


def test_copies_in_resources_that_do_not_change_are_masked() -> None:
    """`terraform_data` copies its input to its output without a mark, and a second resource may use that."""
    values = {"input": f"url://{SECRET}", "output": f"url://{SECRET}"}
    same = change(values, values, before_sensitive={"input": True}, after_sensitive={"input": True}) | {
        "actions": ["no-op"]
    }
    other = change(None, {"input": f"a copy of {SECRET}"})
    data = resource(
        "d", mode="data", values={"secret": SECRET, "copy": f"{SECRET}!"}, sensitive_values={"secret": True}
    )
    found = masked(
        {
            "variables": {"given": {"value": SECRET}},
            "configuration": {"root_module": {"variables": {"given": {"sensitive": True}}}},
            "resource_changes": [resource("a", change=same), resource("b", change=other)],
            "prior_state": {"values": {"root_module": {"resources": [data]}}},
        }
    )
    assert SECRET not in json.dumps(found)
    assert found["resource_changes"][0]["change"]["after"] == {"input": "***", "output": "***"}
    without_variable = masked({"resource_changes": [resource("a", change=same)], "prior_state": {"values": data}})
    assert SECRET not in json.dumps(without_variable)


def test_each_of_many_sensitive_values_is_masked_wherever_it_appears() -> None:
    texts = [f"sensitive value {number}" for number in range(1_100)]
    copies = change(None, {"copies": texts, "number": 9876543210123, "text": "it is 9876543210123"})
    marked = change(None, {"all": texts, "copies": texts}, after_sensitive={"all": True})
    found = masked(
        {
            "variables": {"given": {"value": [texts, 9876543210123]}},
            "configuration": {"root_module": {"variables": {"given": {"sensitive": True}}}},
            "resource_changes": [resource("a", change=copies)],
        }
    )
    after = found["resource_changes"][0]["change"]["after"]
    assert after == {"copies": ["***"] * len(texts), "number": "***", "text": "it is ***"}
    [planned] = masked({"resource_changes": [resource("a", change=marked)]})["resource_changes"]
    assert set(planned["change"]["after"]["copies"]) == {"***"}


def test_constants_for_sensitive_variables_of_called_modules_outputs_and_providers_are_masked() -> None:
    """The configuration has what is written in the source, also where nothing in the plan has the same value with a mark."""

    def constant(value: Any) -> dict[str, Any]:
        return {"constant_value": value}

    inner = {
        "source": "./inner",
        "expressions": {"pin": constant(1234)},
        "module": {"variables": {"pin": {"sensitive": True}}},
    }
    called = {"variables": {"password": {"sensitive": True}, "size": {}}, "module_calls": {"inner": inner}}
    call = {"expressions": {"password": constant("a"), "size": constant(7)}, "module": called}
    aws = {
        "region": constant("eu-west-1"),
        "secret_key": constant("AKIA-literal"),
        "api_token": {"references": ["var.t"]},
    }
    headers = constant({"X-Token": "literal", "Accept": "*"})
    shown = masked(
        {
            "configuration": {
                "provider_config": {"aws": {"name": "aws", "expressions": aws | {"login": [{"headers": headers}]}}},
                "root_module": {
                    "module_calls": {"called": call},
                    "outputs": {
                        "hidden": {"sensitive": True, "expression": constant("b")},
                        "shown": {"expression": constant("c")},
                    },
                },
            }
        }
    )["configuration"]
    module = shown["root_module"]
    assert module["outputs"]["hidden"]["expression"] == constant("***")
    assert module["outputs"]["shown"]["expression"] == constant("c")
    assert module["module_calls"]["called"]["expressions"] == {"password": constant("***"), "size": constant(7)}
    inner = module["module_calls"]["called"]["module"]["module_calls"]["inner"]
    assert (inner["expressions"], inner["source"]) == ({"pin": constant("***")}, "./inner")
    assert shown["provider_config"]["aws"]["expressions"] == {
        "region": constant("eu-west-1"),
        "secret_key": constant("***"),
        "api_token": {"references": ["var.t"]},
        "login": [{"headers": constant({"X-Token": "***", "Accept": "*"})}],
    }


def test_secrets_of_the_server_are_masked_in_texts_keys_and_numbers() -> None:
    values = {"tags": {"of-the-server": 1, "***": 2}, "note": "it is of-the-server", "number": 123456789, "rate": 1.50}
    found = masked({"resource_changes": [resource("a", change=change(None, values))]}, "of-the-server", "123456789")
    after = found["resource_changes"][0]["change"]["after"]
    assert after == {"tags": {"***": 1, "******": 2}, "note": "it is ***", "number": "***", "rate": 1.5}


def test_a_secret_of_a_module_does_not_hide_what_a_policy_looks_for() -> None:
    """A module whose secret was the word `delete` could have hidden what it destroys from the policy of its group."""
    dropped = resource("a", change=change({"name": "delete"}, None), action_reason="delete_because_no_resource_config")
    [found] = masked({"resource_changes": [dropped]}, "delete", "aws_db", "managed")["resource_changes"]
    assert (found["change"]["actions"], found["type"], found["mode"]) == (["delete"], "aws_db", "managed")
    assert found["action_reason"] == "delete_because_no_resource_config"
    assert found["change"]["before"] == {"name": "***"}


def test_a_secret_of_a_module_hides_no_attribute_and_no_address() -> None:
    """A policy that looks for `cidr_blocks` would have found nothing in a module that declares it as a sensitive variable."""
    values = {"publicly_accessible": True, "ingress": [{"cidr_blocks": ["0.0.0.0/0"], "hostNetwork": True}]}
    address = 'module.db["of-the-server"].aws_db.main["a"]'
    planned = resource("main", module_address='module.db["of-the-server"]', change=change(values, None))
    found = masked(
        {
            "variables": {"chosen": {"value": ["publicly_accessible", "aws_db.main"]}},
            "configuration": {"root_module": {"variables": {"chosen": {"sensitive": True}}}},
            "resource_changes": [planned | {"address": address, "previous_address": "aws_db.main"}],
        },
        "of-the-server",
        "cidr_blocks",
        "hostNetwork",
    )
    [shown] = found["resource_changes"]
    assert shown["change"]["before"] == values
    assert (shown["address"], shown["previous_address"]) == ('module.db["***"].aws_db.main["a"]', "aws_db.main")
    assert shown["module_address"] == 'module.db["***"]'


def test_numbers_keep_all_their_digits() -> None:
    printed = b'{"format_version":"1.2","resource_changes":[],"x":[1.10,123456789012345678901234567890,0.1]}'
    assert plan_for_hooks.masked(printed, str) == printed


def test_what_is_not_the_description_of_a_plan_is_refused() -> None:
    for printed in (b"", b"not JSON", b'{"resource_changes": 1}'):
        with pytest.raises(Invalid):
            plan_for_hooks.masked(printed, str)
