"""Runs of whole groups: a plan, an apply or a destroy of every module in and below a group."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.job_views import Reason
from terracrew.protocol.events import PlanSummary


class AppliedPlan(msgspec.Struct, frozen=True):
    path: str
    """The path of the module."""
    job_id: str | None = None
    job_number: int | None = None
    """The job that applies its plan; null if none does."""
    problem: str = ""
    """Why no job applies it."""


class AppliedPlans(msgspec.Struct, frozen=True):
    """What became of the plans of a run that would change something."""

    items: list[AppliedPlan]


RunType = Literal["PLAN", "APPLY", "DESTROY"]
RunStatus = Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELED"]
ModuleStatus = Literal["WAITING", "RUNNING", "SUCCEEDED", "FAILED", "SKIPPED", "CANCELED"]
"""WAITING: for other modules of the run. SKIPPED: one of those did not succeed, so it was not run."""


class GroupRun(msgspec.Struct, frozen=True):
    """A run of all modules below a group."""

    id: str
    organization_id: str
    group_id: str
    path: str
    """The path of the group; empty for the organization."""
    type: RunType
    status: RunStatus
    started_by: str
    """The id of the person or service account that started or resumed it. Its jobs are created with their permissions."""
    started_by_name: str
    created_at: datetime
    finished_at: datetime | None = None


class NewGroupRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The request for a run."""

    type: RunType
    """APPLY runs a module after those whose outputs it uses, DESTROY before them. PLAN plans all of them at once, with the outputs that
    exist now."""


class RunModuleView(msgspec.Struct, frozen=True, kw_only=True):
    """A module of a run as people see it."""

    module_id: str
    path: str
    position: int
    waits_for: list[str]
    """The paths of the modules that must succeed before it is run."""
    status: ModuleStatus
    job_id: str | None
    job_number: int | None
    job_status: str | None
    message: str
    reason: Reason | None
    """Why its job does not proceed, for example because its plan waits for approval."""
    plan: PlanSummary | None = None
    """What the plan of its job would do, without the list of resources."""
    has_changes: bool = False
    """Whether that plan would do anything."""
    is_plan_applicable: bool = False
    """Whether the plan of a PLAN job can be applied as it is."""
    plan_problem: str = ""
    """Why that plan cannot be applied although it would change something."""


class GroupRunView(GroupRun, frozen=True, kw_only=True):
    """A run with its modules, in the order in which they are run."""

    modules: list[RunModuleView]
