"""The rules that must never break. The explorer, the stateful test and the storm each say how they check every one.

Each of the three has a module `catalogue` with `CHECKS`: for each rule the functions that check it, or the reason why that
instrument cannot see the rule break. `tests/test_rules.py` holds them to it.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple


class Rule(NamedTuple):
    number: int
    name: str
    sentence: str


class Rules(Enum):
    ONE_OWNER = Rule(
        1, "One owner", "An attempt has at most one owner, and its number rises at every change of the owner."
    )
    FENCING = Rule(
        2, "Fencing", "A superseded attempt changes nothing current; what it still delivers is kept under its number."
    )
    NOTHING_LOST = Rule(
        3, "Nothing lost", "Every event, state and status that was emitted reaches the server once and in order."
    )
    PERMISSION_TO_APPLY = Rule(
        4,
        "Permission to apply",
        "A mutating step starts only after `begin` was acknowledged for the current attempt and the current state, with "
        "the approval that the job needs, and a plan is applied once.",
    )
    TERMINAL_IS_TERMINAL = Rule(
        5, "Terminal is terminal", "A terminal status never changes, and a job that has ended holds no lock."
    )
    NO_STUCK_JOB = Rule(
        6,
        "No stuck job",
        "Every job that has not ended has a live owner, a lease with a deadline, or a reason that a person can act on.",
    )
    LOCK_FOLLOWS_ATTEMPT = Rule(
        7,
        "The lock follows the attempt",
        "A lock ends with its attempt. Unless a fenced attempt is known to have terminated, nothing on its module "
        "mutates until a person has looked.",
    )
    LEAST_PRIVILEGE = Rule(
        8, "Least privilege", "A runner sees only the jobs that it is assigned, and an executor only its own job."
    )
    MADE_ONCE = Rule(9, "Made once", "What an engine has made is made a second time only after a person has looked.")
    SET_BACK = Rule(
        10,
        "The past is not repeated",
        "A server whose database was set back changes nothing until a person has released it, and makes nothing twice without an "
        "approval of somebody who knew of that.",
    )
    IN_ORDER = Rule(
        11,
        "In order",
        "Jobs of one module are applied in the order in which they were created, within a priority, whatever becomes of an attempt.",
    )


Checks = Mapping[Rules, tuple[Callable[..., Any], ...] | str]
"""The functions that check each rule, or the reason why there is none."""
