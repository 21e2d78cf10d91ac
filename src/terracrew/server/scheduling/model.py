"""Why a job waits."""

from datetime import datetime
from typing import Literal

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """Why a job waits: for a program by its code, for a person in words, with the address of the page that mends it."""

    code: Literal[
        "no_assignment",
        "none_online",
        "no_credential",
        "all_full",
        "module_busy",
        "instance_absent",
        "no_engine",
        "plan_runner",
        "offered",
        "starting",
        "silent",
        "settling",
        "lost",
        "quarantine",
        "approval",
        "in_doubt",
        "undecryptable",
    ]
    text: str
    """It stays the same while the reason is the same, so that a reader who follows the job is told only once."""
    link: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """When something else happens by itself."""
