"""Why a job waits."""

from datetime import datetime
from typing import Literal

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """Why a job waits: a code for programs, a text for people, and the address of the page where they can act."""

    code: Literal[
        "no_assignment",
        "none_online",
        "no_credential",
        "all_full",
        "module_busy",
        "instance_absent",
        "wrong_tag",
        "no_dispatcher",
        "no_engine",
        "capped",
        "plan_runner",
        "offered",
        "starting",
        "silent",
        "retry",
        "settling",
        "waking",
        "wake_refused",
        "lost",
        "quarantine",
        "held",
        "dependency",
        "approval",
        "in_doubt",
        "undecryptable",
        "damaged",
    ]
    text: str
    """The text stays the same while the reason is the same, so that a person who follows the job sees it only once."""
    link: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """When the reason ends without a person's action."""
