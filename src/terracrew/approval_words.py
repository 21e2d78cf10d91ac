"""Approval rules in words, the same on pages and in a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

_ANSWERS = {
    ("self_approval", True): "people may approve their own jobs",
    ("self_approval", False): "nobody approves their own jobs",
    ("service_account_approval", True): "service accounts may approve",
    ("service_account_approval", False): "service accounts do not approve",
    ("interrupted", "ask"): "after a change that was cut short, the next plan needs an approval",
    ("interrupted", "retry"): "a change that was cut short is tried again without asking",
}


def described(rules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return each approval rule as a phrase with its place: `2 people must approve each change (corp)`. `rules` are as the API shows
    them; one that sets no limit is left out."""
    return [f"{words} ({_place(rule['path'])})" for rule in rules if (words := phrase(rule["name"], rule["value"]))]


def phrase(name: str, value: Any) -> str:
    """Return an approval rule in words; empty if it limits nothing."""
    if (answer := _ANSWERS.get((name, value))) is not None:
        return answer
    if value is None or (name == "min_approvals" and not value):
        return ""
    if name == "min_approvals":
        return f"{value} {'person' if value == 1 else 'people'} must approve each change"
    if name == "max_destroy":
        return f"destroying more than {value:,} needs an approval"
    return f"destroying more than {value} % needs an approval"


def _place(path: str | None) -> str:
    return "the default" if path is None else path or "the organization"
