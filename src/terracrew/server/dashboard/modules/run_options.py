"""The page that queues a job of a module with everything that a job may be given: priority, addresses, and values of its own."""

from typing import Any, Literal

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath

from terracrew.api.groups import Group
from terracrew.api.jobs import JobType, NewJob
from terracrew.api.modules import Module
from terracrew.errors import Conflict, Forbidden, Invalid, TerracrewError
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.jobs.create import JobRequest
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import reads as level_reads
from terracrew.server.tree.modules import service
from terracrew.wording import typed_values

TYPES = (
    ("PLAN", "Plan"),
    ("APPLY", "Apply"),
    ("DESTROY_PLAN", "Plan a destroy"),
)
"""A DESTROY is queued by its own page, which shows what it would destroy."""


class RunOptionsForm(msgspec.Struct, frozen=True):
    """What was typed."""

    type: Literal["PLAN", "APPLY", "DESTROY_PLAN"] = "PLAN"
    priority: str = ""
    needs_approval: bool = False
    is_fresh: bool = False
    is_refresh_only: bool = False
    is_without_refresh: bool = False
    targets: str = ""
    replace: str = ""
    inputs: str = ""
    environment: str = ""

    @property
    def job(self) -> NewJob:
        """The request for the job. A mistake names the field that it is in."""
        is_destroy_plan = self.type == "DESTROY_PLAN"
        typed: dict[str, Any] = {
            "type": JobType.PLAN if is_destroy_plan else JobType(self.type),
            "is_destroy_plan": is_destroy_plan,
            "needs_approval": self.needs_approval,
            "is_fresh": self.is_fresh,
            "is_refresh_only": self.is_refresh_only,
            "refresh": not self.is_without_refresh,
            "targets": _lines(self.targets),
            "replace": _lines(self.replace),
            "inputs": {name: typed_values.read(value) for name, value in _pairs(self.inputs, "inputs").items()},
            "environment": _pairs(self.environment, "environment"),
        }
        return forms.convert(typed | ({"priority": self.priority} if self.priority else {}), NewJob)


class RunOptionsPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]


def _lines(typed: str) -> list[str]:
    return [line.strip() for line in typed.splitlines() if line.strip()]


def _pairs(typed: str, field: str) -> dict[str, str]:
    """Return the lines NAME=VALUE of a field."""
    found: dict[str, str] = {}
    for line in _lines(typed):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise Invalid.in_field(field, f"write NAME=VALUE, and not {line[:80]}")
        if name.strip() in found:
            raise Invalid.in_field(field, f"{name.strip()[:80]} is there twice")
        found[name.strip()] = value.strip()
    return found


async def read_one(tx: Tx, who: Principal, name: str) -> RunOptionsPage:
    module = await service.find(tx, who, name, Verb.JOB_RUN)
    return RunOptionsPage(module, (await level_reads.lineage(tx, module.group_id))[::-1])


@get("/{module:str}/run-with")
async def run_options_page(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await request.read(read_one, tree_path(module))
    return await _answer(request, found, RunOptionsForm(), None)


@post("/{module:str}/run-with", status_code=200)
async def run_with_options(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    found = await request.read(read_one, tree_path(module))
    form = await forms.read(request, RunOptionsForm)
    try:
        made = await request.context.create_job(JobRequest(request.user, found.module.id, form.job))
    except (Invalid, Conflict, Forbidden) as error:
        return await _answer(request, found, form, error)
    return render.go(request, f"/dashboard/jobs/{made.job.id}")


async def _answer(
    request: DashboardCall, found: RunOptionsPage, form: RunOptionsForm, error: TerracrewError | None
) -> Response[Any]:
    wrong: dict[str, str] = {}
    if isinstance(error, Invalid) and error.field in RunOptionsForm.__struct_fields__:
        wrong[error.field] = error.reason
    elif error is not None:
        wrong[""] = error.message
    return await render.page(request, "modules/run_options", page=found, form=form, wrong=wrong, types=TYPES)
