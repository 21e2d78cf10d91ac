"""The rows of this package, and the words that the engines' command lines have for what becomes of a run."""

from datetime import datetime
from typing import Literal

import msgspec

RunStatus = Literal[
    "plan_queued",
    "planning",
    "planned",
    "planned_and_saved",
    "planned_and_finished",
    "apply_queued",
    "applying",
    "applied",
    "errored",
    "canceled",
    "discarded",
]
"""`pending` and `confirmed` are missing: a command line that sees one of them does not read the log, which says what a run waits for."""
PhaseStatus = Literal["queued", "running", "finished", "errored", "canceled", "unreachable"]
Phase = Literal["plan", "apply"]
"""The two logs of a run."""


class ConfigurationVersion(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a directory that a command line uploads for one run."""

    id: str
    organization_id: str
    module_id: str
    created_by: str
    created_at: datetime
    is_speculative: bool = False
    """Whether it is only planned, so that it never becomes the source of its module."""
    archive_id: str | None = None
    is_empty: bool = False
    """Whether it has no configuration, as when `tofu destroy` is run in an empty directory."""


class TerminalRun(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line has asked for beside the job that it started: a run has the id of that job."""

    job_id: str
    configuration_version_id: str = ""
    is_automatic: bool = False
    """Whether the plan is applied without a question at the prompt, so that one job plans and applies."""
    is_saved: bool = False
    """Whether the plan is kept for a later `apply`."""
    is_plan_only: bool = False
    message: str = ""
    applied_by: str = ""
    """The job that applies a plan that only refreshes. Every other plan names the job that has taken it."""
    discarded_by: str = ""
    """The name of who has answered no at the prompt."""
    is_adopting: bool = False
    """Whether its files become the source of its module, once they are applied."""


class TerminalWords(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a log before the lines of an attempt: why it had to wait. It only grows until it is closed.

    The row behind the last attempt of a job has the words at the end of its log.
    """

    job_id: str
    attempt: int
    words: str
    is_closed: bool
    """Whether the lines of the attempt follow, so that nothing can be added."""
    mark_before: int
    """The last event of the attempt before that stands in the log. What arrives later is not shown at the prompt."""


class StateUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A state that a command line has announced, and uploads with another request."""

    id: str
    module_id: str
    created_by: str
    credential_id: str
    """The token that holds the lock. The upload itself comes without it."""
    created_at: datetime
    serial: int
    lineage: str
    md5: str
    is_forced: bool
    lock_id: str = ""
    """The lock under which it was announced. The state becomes current only while that one is held."""
    state_id: str | None = None
    """The state that was made of it, once it has arrived."""
    is_refused: bool = False
    """Whether it has arrived and did not become the current state."""
