"""The environment of every job: the runner's, the module's environment inputs, and what Terracrew adds."""

from terracrew import engine_variables
from terracrew.executor.steps import api_tokens, cloud_variables, definitions
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import GitSource
from terracrew.protocol.start import ExecutorStart


def of_job(start: ExecutorStart, granted: Granted, source: SourceResolved) -> dict[str, str]:
    """Return the environment, still without variables of a particular engine. An input cannot replace Terracrew's own variables."""
    spec = granted.spec
    ours = {"TERRACREW_GROUP_PATH": spec.group_path, "TERRACREW_ENDPOINT": start.server_url}
    ours |= api_tokens.variables(start.server_url, start.discovery_host, granted.credentials.api)
    if source.commit:
        ours |= {"TERRACREW_SOURCE_COMMIT": source.commit, "TERRACREW_SOURCE_REVISION": source.revision}
    withheld = spec.source.credential if isinstance(spec.source, GitSource) else ""
    own = {name: text for name, text in spec.environment.items() if name != withheld}
    defined = {
        each.name: definitions.text(each, spec, source) for each in spec.definitions if each.target == "environment"
    }
    given = own | defined
    # The server has checked literals only: it does not know a secret's or an output's value in time.
    engine_variables.check(given, has_our_backend=spec.backend == "terracrew")
    cloud_variables.check(given, spec.cloud)
    return cloud_variables.without_other_credentials(start.environment, spec.cloud) | given | ours
