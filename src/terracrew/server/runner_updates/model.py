"""The update of one instance that updates itself, and what a report of the instance changes about it."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.fleet_jobs import plain_text
from terracrew.protocol.messages import UpdateReport

UpdateStatus = Literal["asked", "running", "done", "failed", "withdrawn"]
MAX_STEP_CHARACTERS = 40
MAX_WORDS_CHARACTERS = 1_000
STEPS = {
    "fetch": "Fetch the release",
    "verify": "Verify its hash and signature",
    "install": "Install it beside the old version",
    "check": "Check that it starts with the settings of the runner",
    "switch": "Switch to it",
    "trial": "Prove that it runs jobs",
}
"""The steps of an update in their order, as `UpdateReport.step` names them, with what each does."""


class InstanceUpdate(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    instance_id: str
    runner_id: str
    job_id: str
    """The fleet job that asked for it."""
    version: str
    status: UpdateStatus = "asked"
    step: str = ""
    """One of `STEPS`, or one that only newer runners know; empty until the instance reports."""
    words: str = ""
    """What the instance said last about the step, or why the update failed."""
    asked_at: datetime
    changed_at: datetime
    """When a report last came, or the status changed."""

    @property
    def is_open(self) -> bool:
        return self.status in ("asked", "running")


def reported(before: InstanceUpdate, report: UpdateReport, now: datetime) -> InstanceUpdate | None:
    """Return the update after a report of its instance. None if it changes nothing: it has ended, or the report was repeated."""
    if not before.is_open:
        return None
    step, words = plain_line(report.step, MAX_STEP_CHARACTERS), plain_line(report.words, MAX_WORDS_CHARACTERS)
    if (before.status, before.step, before.words) == (report.status, step, words):
        return None
    return msgspec.structs.replace(before, status=report.status, step=step, words=words, changed_at=now)


def plain_line(text: str, max_characters: int) -> str:
    """Return what a runner wrote as one line that every database can store and every page and terminal can show."""
    shown = " ".join(plain_text(text, max_characters).split())
    return "".join(each for each in shown if each.isprintable())
