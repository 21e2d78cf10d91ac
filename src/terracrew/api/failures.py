"""Who can mend what kept a job from succeeding: one pure function from what an ended job has recorded."""

from collections.abc import Mapping
from typing import Literal, get_args

from terracrew.api.jobs import JobStatus
from terracrew.protocol.spec import Step

FailureClass = Literal["infrastructure", "engine", "policy", "user"]
"""Who can mend it: those who operate runners and the server (`infrastructure`), those who write the configuration (`engine`), those
who set limits, hooks and policies (`policy`), or the person who started, canceled or declined the job (`user`)."""
FAILURE_CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)

CLASS_OF_KIND: Mapping[str, FailureClass] = {
    "out_of_memory": "infrastructure",
    "disk_full": "infrastructure",
    "lost": "infrastructure",
    "set_back": "infrastructure",
    "time_limit": "policy",
    "process_limit": "policy",
    "hook": "policy",
    "policy": "policy",
    "state_locked": "user",
    "state_moved": "user",
    "inputs": "user",
}
"""The class of each `failure_kind` that this version knows."""
_CLASS_OF_STEP: Mapping[Step, FailureClass] = {Step.FETCH: "infrastructure", Step.INPUTS: "user"}
"""The class of a failure without a kind, by the step that failed. In every other step, the engine failed."""


def class_of(status: JobStatus, failure_kind: str, failed_step: Step | None) -> FailureClass | None:
    """Return the class of an ended job; None for one that succeeded or has not ended.

    `failed_step` is the step of its last attempt that failed. Without a kind that is known here and without such a step, no engine was
    at fault: the executor or the runner failed, or the job could not be started.
    """
    if status in (JobStatus.CANCELED, JobStatus.DECLINED):
        return CLASS_OF_KIND.get(failure_kind, "user")
    if status is not JobStatus.FAILED:
        return None
    if failure_kind in CLASS_OF_KIND:
        return CLASS_OF_KIND[failure_kind]
    return "infrastructure" if failed_step is None else _CLASS_OF_STEP.get(failed_step, "engine")
