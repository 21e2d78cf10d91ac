"""Makes what the tasks of a runner need. Each thing is found again by its name, so that a deployment that was killed is continued."""

from collections.abc import Awaitable, Callable

from terracrew.clouds.aws import destroying, prices
from terracrew.clouds.aws.api import AwsApi
from terracrew.clouds.aws.steps import cluster, log_group, network, roles, secret, task_definition
from terracrew.clouds.aws.steps.work import Waits, Work
from terracrew.clouds.contract import Canceled, CloudRefused, CloudSilent, Reporter, fail_step
from terracrew.clouds.model import Deployment
from terracrew.errors import TerracrewError

SECURITY_GROUPS_FACT = "security_groups"
"""All groups of a task: the one that the deployment made, and those that people named."""


async def deploy(
    api: AwsApi, deployment: Deployment, worker_token: str, job_id: str, reporter: Reporter, waits: Waits
) -> dict[str, str]:
    """Make everything, and return the facts by which tasks are started. A failure removes what this job made."""
    require_valid(deployment)
    with api.reporting(reporter.line):
        steps = _Steps(Work(api, deployment, job_id, reporter, waits))
        try:
            return await steps.run(worker_token)
        except (CloudRefused, CloudSilent, Canceled) as error:
            steps.fail(error)
            if left := await destroying.unwind(api, deployment, job_id, reporter, waits):
                raise type(error)(
                    f"{error.message.rstrip('.')}. This is left in the account: {left}", **error.details
                ) from None
            raise


def require_valid(deployment: Deployment) -> None:
    """Refuse settings that no account accepts, before anything is made."""
    settings = deployment.settings
    if words := prices.find_size_problem(settings):
        raise CloudRefused(words)
    if not settings.image:
        raise CloudRefused("the deployment names no image. Set one for the runner, or for all in the server's settings")
    if settings.credential == "federated" and not deployment.account_path:
        raise CloudRefused("a federated runner needs a service account, whose trust policy names the role of its tasks")


class _Steps:
    """The steps of one attempt, in their order."""

    def __init__(self, work: Work) -> None:
        self._work, self._reporter = work, work.reporter
        self._running = ""

    async def run(self, worker_token: str) -> dict[str, str]:
        work, is_secret = self._work, self._work.settings.credential == "secret"
        self._begin(network.SUBNETS_STEP, network.SUBNETS_WORDS)
        subnets, vpc = await network.choose_subnets(work)
        self._done(", ".join(subnets), f"{len(subnets)} subnets of {vpc}")
        cluster_arn = await self._step(cluster.STEP, cluster.WORDS, lambda: cluster.ensure(work))
        group = await self._step(network.STEP, network.WORDS, lambda: network.ensure(work, vpc))
        logs = await self._step(log_group.STEP, log_group.WORDS, lambda: log_group.ensure(work))
        task_role = await self._step(roles.TASK_STEP, roles.TASK_WORDS, lambda: roles.ensure_task(work))
        secret_arn = ""
        if is_secret:
            secret_arn = await self._step(secret.STEP, secret.WORDS, lambda: secret.ensure(work, worker_token))
        execution_role = await self._step(
            roles.EXECUTION_STEP, roles.EXECUTION_WORDS, lambda: roles.ensure_execution(work, logs, secret_arn)
        )
        definition = await self._step(
            task_definition.STEP,
            task_definition.WORDS,
            lambda: task_definition.ensure(work, execution_role, task_role, secret_arn),
        )
        if count := await task_definition.remove_old(work, definition):
            self._reporter.line(f"Removed {count} old revisions of the task definition")
        return {
            network.SUBNETS_STEP: ",".join(subnets),
            cluster.STEP: cluster_arn,
            network.STEP: group,
            SECURITY_GROUPS_FACT: ",".join([group, *work.settings.security_groups]),
            log_group.STEP: logs,
            roles.TASK_STEP: task_role,
            roles.EXECUTION_STEP: execution_role,
            task_definition.STEP: definition,
        } | ({secret.STEP: secret_arn} if is_secret else {})

    def fail(self, error: TerracrewError) -> None:
        """End the step that runs, if one does."""
        if self._running:
            fail_step(self._reporter, self._running, error)
            self._running = ""

    async def _step(self, step: str, words: str, ensure: Callable[[], Awaitable[tuple[str, str]]]) -> str:
        self._begin(step, words)
        reference, said = await ensure()
        self._done(reference, said)
        return reference

    def _begin(self, step: str, words: str) -> None:
        self._reporter.require_wanted()
        self._reporter.begin(step, words)
        self._running = step

    def _done(self, reference: str, words: str) -> None:
        self._reporter.done(self._running, reference, words)
        self._running = ""
