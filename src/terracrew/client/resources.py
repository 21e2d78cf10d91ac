"""What the Python client can do with each noun. Every method is one request, or one for each page of a list."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from terracrew.api.groups import Group, GroupChange, GroupView, NewGroup
from terracrew.api.inputs import InputView, NewInput, Target
from terracrew.api.job_views import JobListed, JobView
from terracrew.api.jobs import Approval, ApprovedJob, CancelRequest, Decline, Job, JobStatus, NewJob
from terracrew.api.module_views import ModuleListed, ModuleView
from terracrew.api.modules import Archive, Module, ModuleChange, ModuleMove, NewModule
from terracrew.api.runners import Registered, Registration, RunnerChange, RunnerRemoval, RunnerStatus, RunnerView
from terracrew.api.states import ModuleOutputs, State
from terracrew.client.address import segment
from terracrew.client.http import Api
from terracrew.errors import Conflict
from terracrew.protocol.spec import JobType

T = TypeVar("T")


class Resource:
    def __init__(self, api: Api) -> None:
        self._api = api


class GroupResource(Resource):
    def list(self, parent: str | None = None) -> Iterator[Group]:
        """Yield the groups directly in `parent`, or all of them."""
        return self._api.list("/groups", Group, parent=parent)

    def get(self, path: str) -> GroupView:
        return self._api.get(f"/groups/{segment(path)}", GroupView)

    def create(self, new: NewGroup, *, parents: bool = False) -> Group:
        """Create a group and, with `parents`, its missing parent groups."""
        return self._api.post("/groups?parents=true" if parents else "/groups", new, Group)

    def change(self, path: str, change: GroupChange) -> Group:
        return self._api.patch(f"/groups/{segment(path)}", change, Group)

    def delete(self, path: str) -> None:
        self._api.delete(f"/groups/{segment(path)}")


class ModuleResource(Resource):
    def list(self, group: str | None = None, *, recursive: bool = True) -> Iterator[ModuleListed]:
        """Yield the modules in and below a group, or those of the whole organization."""
        return self._api.list("/modules", ModuleListed, group=group, recursive=recursive)

    def get(self, path: str) -> ModuleView:
        return self._api.get(f"/modules/{segment(path)}", ModuleView)

    def create(self, new: NewModule) -> Module:
        return self._api.post("/modules", new, Module)

    def change(self, path: str, change: ModuleChange) -> Module:
        """Change what the request names, and keep the rest."""
        return self._api.patch(f"/modules/{segment(path)}", change, Module)

    def move(self, path: str, to: str) -> Module:
        return self._api.post(f"/modules/{segment(path)}/move", ModuleMove(to), Module)

    def delete(self, path: str, *, force: bool = False) -> None:
        """Delete a module, with `force` also its jobs, logs and states. Its resources are not touched."""
        self._api.delete(f"/modules/{segment(path)}{'?force=true' if force else ''}")

    def outputs(self, path: str, *, sensitive: bool = False) -> ModuleOutputs:
        return self._api.get(f"/modules/{segment(path)}/outputs", ModuleOutputs, sensitive=sensitive)

    def upload(self, archive: bytes) -> Archive:
        """Upload a source as a tar.gz archive; its id is that of an `ArchiveSource`."""
        return self._api.upload_in_parts("/archives", archive, "application/gzip", Archive, target="archive")


class InputResource(Resource):
    def list(self, place: str = "", *, inherited: bool = True) -> Iterator[InputView]:
        return self._api.list("/inputs", InputView, place=place, inherited=inherited)

    def set(self, new: NewInput) -> InputView:
        return self._api.post("/inputs", new, InputView)

    def remove(self, name: str, place: str = "", target: Target = "variable") -> None:
        self._api.delete(f"/inputs?name={segment(name)}&place={segment(place)}&target={target}")


class StateResource(Resource):
    def list(self, module: str) -> Iterator[State]:
        return self._api.list(f"/modules/{segment(module)}/states", State)

    def current(self, module: str) -> dict[str, Any]:
        """Return the current state of a module as the engine wrote it."""
        return self._api.get(f"/modules/{segment(module)}/state", dict[str, Any])


class RunnerResource(Resource):
    def list(self, group: str | None = None, status: RunnerStatus | None = None) -> Iterator[RunnerView]:
        return self._api.list("/runners", RunnerView, group=group, status=status)

    def get(self, path: str) -> RunnerView:
        return self._api.get(f"/runners/{segment(path)}", RunnerView)

    def register(self, new: Registration) -> Registered:
        """Register a runner. Only this answer has its token."""
        return self._api.post("/runners/register", new, Registered)

    def change(self, path: str, change: RunnerChange) -> RunnerView:
        return self._api.patch(f"/runners/{segment(path)}", change, RunnerView)

    def remove(self, path: str, *, force: bool = False) -> RunnerRemoval:
        """Remove a runner after its last job, or with `force` at once."""
        return self._api.delete(f"/runners/{segment(path)}{'?force=true' if force else ''}", None, RunnerRemoval)


class RunningJob:
    """A job that was created or found, to be followed and decided about."""

    def __init__(self, api: Api, job: Job) -> None:
        self._api, self.job = api, job
        self._path = f"/jobs/{segment(job.id)}"

    def get(self) -> JobView:
        """Return the job as it is now."""
        return self._api.get(self._path, JobView)

    def follow(self, write: Callable[[str], object] = sys.stdout.write) -> JobView:
        """Hand the log to `write` as it grows. Return the job when it has ended, or when its plan waits for an approval."""
        for event in self._api.events(f"{self._path}/log/stream"):
            if event.name == "log":
                for each in msgspec.json.decode(event.data):
                    write(each["text"])
            elif event.name == "end":
                break
            elif event.name == "job" and (job := self.get()).status is JobStatus.AWAITING_APPROVAL:
                return job
        return self.get()

    def wait(self) -> JobView:
        """Return the job when it has ended, or when its plan waits for an approval, without its log."""
        return self.follow(lambda _: None)

    def approve(self, seen: JobView, comment: str = "") -> ApprovedJob:
        """Approve the plan that the job waits with. The approval covers the plan and the doubts that `seen` shows, and nothing else."""
        body = Approval(_waiting_plan(seen), seen.seen_doubts, comment)
        return self._api.post(f"{self._path}/approve", body, ApprovedJob)

    def decline(self, seen: JobView, reason: str = "") -> Job:
        """Decline the plan that `seen` shows."""
        return self._api.post(f"{self._path}/decline", Decline(_waiting_plan(seen), reason), Job)

    def cancel(self) -> Job:
        return self._api.post(f"{self._path}/cancel", CancelRequest(), Job)


def _waiting_plan(job: JobView) -> int:
    if job.plan_attempt is None:
        raise Conflict(f"job {job.number} is {job.status}: there is no plan to decide about")
    return job.plan_attempt


class JobResource(Resource):
    def run(self, module: str, *, apply: bool = False, destroy: bool = False, new: NewJob | None = None) -> RunningJob:
        """Queue a job of a module: a plan, an apply or a destroy, or what `new` says."""
        kind = JobType.APPLY if apply else JobType.DESTROY if destroy else JobType.PLAN
        key = {"Idempotency-Key": uuid4().hex}
        made = self._api.post(f"/modules/{segment(module)}/jobs", new or NewJob(kind), Job, headers=key)
        return RunningJob(self._api, made)

    def get(self, job: str | int) -> RunningJob:
        """Find a job by its id or its number."""
        return RunningJob(self._api, self._api.get(f"/jobs/{segment(str(job))}", JobView))

    def list(self, module: str | None = None, status: JobStatus | None = None) -> Iterator[JobListed]:
        return self._api.list("/jobs", JobListed, module=module, status=status)
