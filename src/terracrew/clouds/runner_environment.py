"""The variables with which a runner process in a cloud finds its server, knows its name and leaves by itself."""

from terracrew.clouds.model import Deployment, StartRequest

INSTANCE_VARIABLE = "TERRACREW_RUNNER__INSTANCE"
ON_TRIAL_VARIABLE = "TERRACREW_RUNNER__ON_TRIAL"
WORKER_TOKEN_VARIABLE = "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN"  # noqa: S105  (the name of a variable)
"""Comes from the secret store of the cloud, and is in no definition of a task or a pod."""
ASK_SECONDS = 30
"""How often an idle instance asks to leave. The server keeps the last one for the idle time that people chose, and no other."""
STOP_TIMEOUT_SECONDS = 120
"""How long a cloud waits after SIGTERM before it kills an instance: the most that Fargate allows."""
STOP_SECONDS = 110
"""How much of that the runner uses to interrupt jobs that do not end in time, and to deliver everything."""


def instance_variables(wanted: StartRequest) -> dict[str, str]:
    """Return what one instance has besides what all of them have in common."""
    return {INSTANCE_VARIABLE: wanted.instance} | ({ON_TRIAL_VARIABLE: "true"} if wanted.is_on_trial else {})


def variables(deployment: Deployment, *, helper: str) -> dict[str, str]:
    """Return what all instances have in common, without the worker token. `helper` is the credential helper of federated ones."""
    chosen = deployment.settings
    found = {
        "TERRACREW_SERVER__URL": deployment.server_url,
        "TERRACREW_RUNNER__CAPACITY": str(chosen.capacity),
        "TERRACREW_RUNNER__IDLE_SECONDS": str(min(chosen.idle_seconds, ASK_SECONDS)),
        "TERRACREW_RUNNER__MAX_LIFETIME_SECONDS": str(chosen.max_lifetime_seconds),
        "TERRACREW_RUNNER__STOP_SECONDS": str(STOP_SECONDS),
    }
    if deployment.server_url.startswith("http://"):
        # The server's own address has no TLS, so there is no other way to it.
        found["TERRACREW_SERVER__ALLOW_PLAIN_HTTP"] = "true"
    if chosen.credential == "federated":
        return found | {
            "TERRACREW_RUNNER__ORGANIZATION_ID": deployment.organization_id,
            "TERRACREW_RUNNER__PATH": deployment.runner_path,
            "TERRACREW_RUNNER__CREDENTIALS__SERVICE_ACCOUNT_PATH": deployment.account_path,
            "TERRACREW_RUNNER__CREDENTIALS__HELPER__COMMAND": helper,
        }
    return found | {
        "TERRACREW_RUNNER__ID": deployment.runner_id,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": deployment.runner_id,
        # A rotated token would be kept in a directory that ends with the instance, and the next one needs the token of the store.
        "TERRACREW_RUNNER__ROTATE_WORKER_TOKEN": "false",
    }
