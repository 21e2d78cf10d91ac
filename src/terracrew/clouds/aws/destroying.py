"""Removes what deployments of a runner made: all of it, or, after a deployment that failed, what that deployment made."""

from collections.abc import Awaitable, Callable

from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.steps import cluster, log_group, network, roles, secret, task_definition, tasks
from terracrew.clouds.aws.steps.work import Waits, Work
from terracrew.clouds.contract import Canceled, CloudRefused, CloudSilent, Reporter, fail_step
from terracrew.clouds.model import Deployment

_UNWIND_STEP, _UNWIND_WORDS = "unwind", "Remove what this job made"
_Remove = Callable[[Work], Awaitable[str]]
_REMOVALS: tuple[tuple[str, str, _Remove], ...] = (
    (task_definition.STEP, task_definition.WORDS, task_definition.remove),
    (secret.STEP, secret.WORDS, secret.remove),
    (roles.EXECUTION_STEP, roles.EXECUTION_WORDS, lambda work: roles.remove(work, work.names.execution_role)),
    (roles.TASK_STEP, roles.TASK_WORDS, lambda work: roles.remove(work, work.names.task_role)),
    (log_group.STEP, log_group.WORDS, log_group.remove),
    (network.STEP, network.WORDS, network.remove),
    (cluster.STEP, cluster.WORDS, cluster.remove),
)
"""The order is that of deploying, backwards: nothing is removed that something else still uses."""


async def destroy(api: AwsApi, deployment: Deployment, job_id: str, reporter: Reporter, waits: Waits) -> None:
    """Remove everything of the runner. What cannot be removed is tried by the next call again, and named by this one."""
    work, left = Work(api, deployment, job_id, reporter, waits), list[str]()
    with api.reporting(reporter.line):
        reporter.require_wanted()
        reporter.begin(tasks.STEP, tasks.WORDS)
        try:
            reporter.done(tasks.STEP, words=await tasks.stop_all(work))
        except (CloudRefused, CloudSilent, Canceled) as error:
            fail_step(reporter, tasks.STEP, error)
            raise
        for step, words, remove in _REMOVALS:
            reporter.require_wanted()
            reporter.begin(step, words)
            try:
                removed = await remove(work)
            except CloudRefused as error:
                fail_step(reporter, step, error)
                left.append(f"{words.lower()}: {error.message}")
            except (CloudSilent, Canceled) as error:
                fail_step(reporter, step, error)
                raise
            else:
                reporter.done(step, removed, "removed" if removed else "was not there")
    if left:
        raise CloudRefused(f"this is left in the account: {'; '.join(left)}")


async def unwind(api: AwsApi, deployment: Deployment, job_id: str, reporter: Reporter, waits: Waits) -> str:
    """Remove what this job made. Returns what is left and why, in words; empty if nothing is."""
    work, left = Work(api, deployment, job_id, _Unstoppable(reporter), waits, is_unwinding=True), list[str]()
    reporter.begin(_UNWIND_STEP, _UNWIND_WORDS)
    silence = ""
    for _, words, remove in _REMOVALS:
        if silence:
            left.append(f"{words.lower()} (AWS was not asked again)")
            continue
        try:
            if removed := await remove(work):
                reporter.line(f"Removed: {words.lower()} {removed}")
        except CloudRefused as error:
            left.append(f"{words.lower()}: {error.message}")
        except CloudSilent as error:
            silence = error.message
            left.append(f"{words.lower()}: {error.message}")
    named = "; ".join(left)
    if left:
        reporter.failed(
            _UNWIND_STEP, f"{'may be left' if silence else 'left'}: {named}", "Remove the runner, or deploy again."
        )
    else:
        reporter.done(_UNWIND_STEP, words="nothing is left")
    return named


class _Unstoppable:
    """The reporter of a job that may have been canceled already: what it made is removed all the same."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def begin(self, step: str, words: str) -> None:
        self._reporter.begin(step, words)

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        self._reporter.done(step, reference, words)

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        self._reporter.failed(step, words, remedy)

    def line(self, text: str) -> None:
        self._reporter.line(text)

    def require_wanted(self) -> None:
        return
