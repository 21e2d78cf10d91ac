"""The environment of every job: the runner's, the module's environment inputs, and what Terracrew adds."""

from terracrew.protocol.messages import Granted
from terracrew.protocol.start import ExecutorStart


def of_job(start: ExecutorStart, granted: Granted) -> dict[str, str]:
    """Return the environment, still without variables of a particular engine. An input cannot replace Terracrew's own variables."""
    spec = granted.spec
    ours = {"TERRACREW_GROUP_PATH": spec.group_path, "TERRACREW_ENDPOINT": start.server_url}
    return start.environment | spec.environment | ours
