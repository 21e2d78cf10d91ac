"""The environment of every job: the runner's, the module's environment inputs, and what Terracrew adds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from terracrew.engine_rules import flags as engine_variables
from terracrew.executor.steps import cloud_variables
from terracrew.protocol.events import SourceResolved
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import DefinedInput, Definition, GitSource, JobSpec, PlaceEnvironment
from terracrew.protocol.start import ExecutorStart

_HTTPS_PORT = 443


_VALUES: dict[Definition, Callable[[JobSpec, SourceResolved], Any]] = {
    "organization_id": lambda spec, _: spec.organization_id,
    "group_path": lambda spec, _: spec.group_path,
    "module_path": lambda spec, _: spec.module_path,
    "module_name": lambda spec, _: spec.module_path.rpartition("/")[2],
    "module_id": lambda spec, _: spec.module_id,
    "job_number": lambda spec, _: spec.number,
    "job_type": lambda spec, _: spec.type.value,
    "source_commit": lambda _, source: source.commit,
    "source_revision": lambda _, source: source.revision,
}


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
    return own | {each.name: defined_text(each, spec, source) for each in defined if each.target == "environment"}


def _ours(start: ExecutorStart, granted: Granted, source: SourceResolved) -> dict[str, str]:
    ours = {"TERRACREW_GROUP_PATH": granted.spec.group_path, "TERRACREW_ENDPOINT": start.server_url}
    token = granted.credentials.api
    ours |= {name: token for host, port in _server_ports(start) for name in _token_names(host, port)}
    if source.commit:
        ours |= {"TERRACREW_SOURCE_COMMIT": source.commit, "TERRACREW_SOURCE_REVISION": source.revision}
    return ours


def server_hosts(start: ExecutorStart) -> frozenset[str]:
    """Return how a source may spell the server's own host and the one under which modules name it."""
    return frozenset(host if port == _HTTPS_PORT else f"{host}:{port}" for host, port in _server_ports(start))


def state_paths(spec: JobSpec) -> frozenset[str]:
    """Return the paths of the module's state on the server, by the module's path and by its id."""
    names = (quote(spec.module_path, safe=""), spec.module_path.replace("/", "%2f"), spec.module_id)
    return frozenset(f"/api/v1/modules/{name}/state" for name in names)


def _server_ports(start: ExecutorStart) -> list[tuple[str, int]]:
    server = urlsplit(start.server_url)
    port = server.port or (_HTTPS_PORT if server.scheme == "https" else 80)
    named = urlsplit(f"//{start.discovery_host}")
    found = [(server.hostname or "", port), (named.hostname or "", named.port or _HTTPS_PORT)]
    return [(host, port) for host, port in found if host]


def _token_names(host: str, port: int) -> tuple[str, ...]:
    """Return `TF_TOKEN_<host>`, in which the engines expect `_` for `.` and `__` for `-`.

    The engines look a token up by host and port, without the port if it is 443. So a server on another port gets a second
    variable, `TF_TOKEN_<host>:<port>`. A shell cannot set such a name, but an engine reads it.
    """
    ascii_host = host if host.isascii() else host.encode("idna").decode()
    name = "TF_TOKEN_" + ascii_host.replace("-", "__").replace(".", "_")
    return (name,) if port == _HTTPS_PORT else (name, f"{name}:{port}")


def defined_value(wanted: DefinedInput, spec: JobSpec, source: SourceResolved) -> Any:
    """Return the value of a variable."""
    return _VALUES[wanted.definition](spec, source)


def defined_text(wanted: DefinedInput, spec: JobSpec, source: SourceResolved) -> str:
    """Return the value of an environment variable."""
    return str(defined_value(wanted, spec, source))
