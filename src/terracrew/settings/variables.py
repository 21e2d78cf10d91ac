"""Every environment variable whose name begins with TERRACREW_, for all processes, so that a misspelt one is found; and reads settings
from them, with the variable that set each.

Server, runner, command line and executor may share one environment, so each of them knows the names of the others.
"""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_origin

from pydantic import BaseModel

from terracrew.settings.external.section import External
from terracrew.settings.names import folded, is_mapping, is_model, is_section, kinds_of_field, short_names
from terracrew.settings.runner import RunnerProcessSettings
from terracrew.settings.server import FILE_ONLY, ServerSettings
from terracrew.settings.server import PREFIX as SERVER_PREFIX
from terracrew.settings.trees import Path, Tree, put
from terracrew.toolchains import specs

PREFIX = "TERRACREW_"
SEPARATOR = "__"
COMMAND_LINE = (
    "TERRACREW_CONFIG",
    "TERRACREW_RUNNER_CONFIG",
    "TERRACREW_ORGANIZATION",
    "TERRACREW_TOKEN",
    "TERRACREW_URL",
)
JOBS = (
    "TERRACREW_COST_FILE",
    "TERRACREW_ENDPOINT",
    "TERRACREW_GROUP_PATH",
    "TERRACREW_HOOK",
    "TERRACREW_OIDC_TOKEN_FILE",
    "TERRACREW_PLAN_FILE",
    "TERRACREW_PLAN_JSON",
    "TERRACREW_POD_UID",
    "TERRACREW_SOURCE_COMMIT",
    "TERRACREW_SOURCE_REVISION",
    "TERRACREW_STEP",
    "TERRACREW_STEP_STATUS",
    "TERRACREW_VAULT_MOUNT",
    "TERRACREW_VAULT_ROLE",
)
"""What an executor sets for its engine, and what a command inside a job therefore inherits; and what its pod has."""
ENGINES = ("TERRACREW_CACHE",)
CONTAINERS = ("TERRACREW_INSTALLATION", "TERRACREW_START_TICKET")
"""What our images say about themselves (`runner.installation`), and what a dispatcher sets for the first process of a container,
which takes it away before anything else runs."""
OPEN = ("TERRACREW_JOB_DISPATCHER_DATA_", "TERRACREW_OIDC_TOKEN_FILE_", "TERRACREW_STATEFUL_", "TERRACREW_TEST_")
"""Beginnings of names whose rest is free: data of a dispatcher, audiences of tokens, and options of our tests."""
_SERVICE_HOST = "_SERVICE_HOST"
_DISPATCHER = re.compile(
    r"TERRACREW_JOB_DISPATCHERS_(?P<name>[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*?)_"
    r"(?P<rest>TYPE|DATA_[A-Z0-9_]+|ALLOW_(?:IMAGES|MAX_MEMORY_MB|MAX_CPU|SERVICE_ACCOUNTS))"
)


def unknown(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return each variable that no process of Terracrew reads, with words that suggest the nearest name."""
    ignored = service_links(environment)
    return [
        (name, _words(name))
        for name in sorted(environment)
        if name.startswith(PREFIX) and not is_known(name) and name not in ignored
    ]


def is_known(name: str) -> bool:
    exact, beginnings = _known()
    return name.upper() in exact or name.upper().startswith(beginnings) or of_dispatcher(name) is not None


def of_dispatcher(name: str) -> Path | None:
    """Return the setting of a further dispatcher that a variable sets, such as TERRACREW_JOB_DISPATCHERS_BIG_DATA_IMAGE."""
    found = _DISPATCHER.fullmatch(name)
    if found is None:
        return None
    section, rest = found["rest"].lower().partition("_")[::2]
    return ("job_dispatchers", found["name"].lower().replace("_", "-"), section, *([rest] if rest else []))


def service_links(environment: Mapping[str, str]) -> set[str]:
    """Return the variables that Kubernetes sets in every container for a Service whose name begins with `terracrew`.

    For a Service `terracrew-server`, one of them has the name of a setting: TERRACREW_SERVER_PORT=tcp://10.0.0.1:7400.
    """
    services = [name.removesuffix(_SERVICE_HOST) for name in environment if name.endswith(_SERVICE_HOST)]
    return {
        name
        for name, value in environment.items()
        for service in services
        if service.startswith("TERRACREW")
        and (
            name.startswith((f"{service}{_SERVICE_HOST}", f"{service}_SERVICE_PORT", f"{service}_PORT_"))
            or (name == f"{service}_PORT" and "://" in value)
        )
    }


@cache
def _known() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the known names, and the beginnings of names whose rest is free."""
    names: list[str] = [*COMMAND_LINE, *short_names(RunnerProcessSettings), *JOBS, *ENGINES, *CONTAINERS]
    beginnings: list[str] = [*OPEN]
    names += [SERVER_PREFIX + field.upper() for field in ServerSettings.model_fields if field not in FILE_ONLY]
    names += [f"{SERVER_PREFIX}CONFIG"]
    names += [name for name, _ in _of_model(External, f"{SERVER_PREFIX}EXTERNAL__")]
    beginnings.append(f"{SERVER_PREFIX}EXTERNAL__SETTINGS__")
    names += [f"{PREFIX}{engine.upper()}_{what}" for engine in specs.ENGINES for what in ("RELEASES", "SHA256")]
    for name, is_open in _of_model(RunnerProcessSettings, PREFIX):
        names.append(name)
        if is_open:
            beginnings.append(f"{name}__")
    return frozenset(names), tuple(beginnings)


def _of_model(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, bool]]:
    """Yield the variable of each setting and each section, and whether any key may follow it."""
    for field, info in model.model_fields.items():
        name = f"{prefix}{field.upper()}"
        kinds = [kind.type for kind in kinds_of_field(info)]
        yield name, any(_is_open(kind) for kind in kinds)
        for kind in kinds:
            if is_model(kind):
                yield from _of_model(kind, f"{name}__")


def _is_open(kind: Any) -> bool:
    return get_origin(kind) is dict or (is_model(kind) and kind.model_config.get("extra") == "allow")


def _words(name: str) -> str:
    if (setting := name.removeprefix(SERVER_PREFIX).lower()) in FILE_ONLY:
        return f"only the server's settings file can have {setting}"
    exact, _ = _known()
    near = difflib.get_close_matches(name.upper(), sorted(exact), 1, cutoff=0.7)
    return f"there is no such variable{f'; did you mean {near[0]}?' if near else ''}"


class Reading(NamedTuple):
    values: Tree
    places: dict[Path, str]
    problems: list[str]
    unread: list[Path]
    """The sections whose variables could not be read."""


def variable(prefix: str, path: Path) -> str:
    """Return the name of the variable that sets this setting."""
    return prefix + SEPARATOR.join(path).upper()


def read(model: type[BaseModel], prefix: str, environ: Mapping[str, str], *, ignores_empty: bool = False) -> Reading:
    """Read the variables that are named after settings: `TERRACREW_RUNNER__CAPACITY`. A whole section is given as JSON.

    Variables that the model does not know belong to other programs, or `variables` reports them as unknown.
    """
    reading = Reading({}, {}, [], [])
    foreign = {name for name, _ in unknown(environ)} | service_links(environ)
    named = [
        (_parts(name, prefix), name) for name in environ if name.upper().startswith(prefix) and name not in foreign
    ]
    for parts, name in sorted(named, key=lambda each: (len(each[0]), each[1])):
        if parts[0] not in model.model_fields or (ignores_empty and not environ[name]):
            continue
        path, value = folded(model, parts), environ[name]
        place = f"environment {name}"
        if is_section(model, path) or is_mapping(model, path):
            section = json_object(value)
            if section is None:
                words = 'a section in one variable must be a JSON object, such as {"name": "value"}'
                reading.problems.append(f"  {'.'.join(path)} ({place}): {words}")
                reading.unread.append(path)
                continue
            put(reading.values, path, section)
        else:
            put(reading.values, path, value)
        reading.places[path] = place
    return reading


def read_short(names: Mapping[str, Path], environ: Mapping[str, str]) -> Reading:
    """Read the variables with names of their own, such as TERRACREW_URL. Of two for one setting, the first name wins."""
    reading = Reading({}, {}, [], [])
    for name, path in names.items():
        if path not in reading.places and environ.get(name):
            put(reading.values, path, environ[name])
            reading.places[path] = f"environment {name}"
    return reading


def _parts(name: str, prefix: str) -> list[str]:
    return name[len(prefix) :].lower().split(SEPARATOR)


def json_object(text: str) -> dict[str, Any] | None:
    """Return the section that a text has as JSON; None if it has none."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]
