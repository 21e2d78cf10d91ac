"""The environment of every job: the runner's, the module's environment inputs, and what Terracrew adds."""

from collections.abc import Iterable, Mapping

from terracrew.engine_rules import flags as engine_variables
from terracrew.executor.steps import api_tokens, cloud_variables, definitions
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import DefinedInput, GitSource, JobSpec, PlaceEnvironment
from terracrew.protocol.start import ExecutorStart


def of_job(start: ExecutorStart, granted: Granted, source: SourceResolved) -> dict[str, str]:
    """Return the environment, still without variables of a particular engine. An input cannot replace Terracrew's own variables."""
    spec = granted.spec
    given = _given(spec, source, spec.environment, spec.definitions)
    # The server has checked literals only: it does not know a secret's or an output's value in time.
    engine_variables.check_environment(given, has_our_backend=spec.backend == "terracrew")
    cloud_variables.check(given, spec.cloud)
    return _of_runner(start, spec) | given | _ours(start, granted, source)


def of_place(
    start: ExecutorStart, granted: Granted, source: SourceResolved, place: PlaceEnvironment, added: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the hooks of a group, which has nothing that is set below the group. `added` is what Terracrew adds
    for the engine."""
    given = _given(granted.spec, source, place.variables, place.definitions)
    return _of_runner(start, granted.spec) | dict(added) | given | _ours(start, granted, source)


def names_given(spec: JobSpec) -> set[str]:
    """Return the names of the variables that the places of a job and the job itself set."""
    return {*spec.environment, *(each.name for each in spec.definitions if each.target == "environment")}


def _of_runner(start: ExecutorStart, spec: JobSpec) -> dict[str, str]:
    own = cloud_variables.without_other_credentials(start.environment, spec.cloud)
    if spec.backend == "terracrew":
        own.pop(engine_variables.WORKSPACE, None)  # nobody set it for this job, and its state has no workspaces
    return own


def _given(
    spec: JobSpec, source: SourceResolved, variables: Mapping[str, str], defined: Iterable[DefinedInput]
) -> dict[str, str]:
    withheld = spec.source.credential if isinstance(spec.source, GitSource) else ""
    own = {name: text for name, text in variables.items() if name != withheld}
    return own | {each.name: definitions.text(each, spec, source) for each in defined if each.target == "environment"}


def _ours(start: ExecutorStart, granted: Granted, source: SourceResolved) -> dict[str, str]:
    ours = {"TERRACREW_GROUP_PATH": granted.spec.group_path, "TERRACREW_ENDPOINT": start.server_url}
    ours |= api_tokens.variables(start.server_url, start.discovery_host, granted.credentials.api)
    if source.commit:
        ours |= {"TERRACREW_SOURCE_COMMIT": source.commit, "TERRACREW_SOURCE_REVISION": source.revision}
    return ours
