"""The policies of the documentation, evaluated by the real program."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from terracrew.server.policies.opa import Opa

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.examples")]
DOCS = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
BLOCKS = re.findall(r"```rego\n(.*?)```", DOCS, re.DOTALL)


def block(word: str) -> str:
    return next(text for text in BLOCKS if word in text)


def changed(action: str, **after: Any) -> dict[str, Any]:
    change = {"address": "aws_instance.a", "type": "aws_instance", "change": {"actions": [action], "after": after}}
    return {"plan": {"resource_changes": [change]}, "time": {"weekday": "Monday", "hour": 9}}


EXAMPLES: list[tuple[str, dict[str, Any], list[str]]] = [
    ("would be destroyed", changed("delete"), ["aws_instance.a would be destroyed"]),
    ("would be destroyed", changed("create"), []),
    ("nothing is changed on", {"time": {"weekday": "Sunday", "hour": 9}}, ["nothing is changed on a Sunday"]),
    ("nothing is changed on", {"time": {"weekday": "Friday", "hour": 17}}, ["it is after 16:00"]),
    ("nothing is changed on", {"time": {"weekday": "Friday", "hour": 9}}, []),
    ("nobody has said", {"cost": None}, ["nobody has said what this costs"]),
    ("nobody has said", {"cost": {"monthly_before": 1, "monthly_after": 2, "currency": "USD"}}, []),
    (
        "nobody has said",
        {"cost": {"monthly_before": 1, "monthly_after": 201, "currency": "USD"}},
        ["it costs 200 USD a month more"],
    ),
    ("regions :=", changed("create", region="us-east-1"), ["aws_instance.a is in us-east-1"]),
    ("regions :=", changed("create", instance_type="m5.24xlarge"), ["aws_instance.a: m5.24xlarge is too large"]),
    ("regions :=", changed("create", region="eu-west-1", instance_type="t3.micro"), []),
]


async def test_every_block_is_a_policy() -> None:
    assert len(BLOCKS) >= 3
    for each in BLOCKS:
        await Opa().check(each)


@pytest.mark.parametrize(("word", "given", "expected"), EXAMPLES)
async def test_an_example_says_what_it_is_about(word: str, given: dict[str, Any], expected: list[str]) -> None:
    [outcome] = await Opa().evaluate(block(word), [json.dumps(given).encode()])
    assert [each.text for each in outcome.messages] == expected
    assert outcome.verdict != "failed"
