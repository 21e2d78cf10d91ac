"""A run of a group: the order of its modules, and what has become of each of them."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.protocol.events import PlanSummary
from terracrew.server.scheduling.model import Reason

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


class RunModule(msgspec.Struct, frozen=True):
    """A module of a run."""

    run_id: str
    module_id: str
    path: str
    position: int
    """Its place in the order: 0 for modules that wait for no other one, and so on."""
    waits_for: list[str]
    """The ids of the modules of the run that must succeed before it is run."""
    status: ModuleStatus = "WAITING"
    job_id: str | None = None
    message: str = ""
    """Why it failed or was skipped."""


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
