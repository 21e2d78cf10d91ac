"""Every environment variable whose name begins with TERRACREW_, for all processes, so that a misspelt one is found.

Server, runner, command line and executor may share one environment, so each of them knows the names of the others.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_origin

from pydantic import BaseModel

from terracrew.settings import suggestions
from terracrew.settings.external.section import External
from terracrew.settings.runner import RunnerSettings
from terracrew.settings.server import FILE_ONLY, ServerSettings
from terracrew.settings.server import PREFIX as SERVER_PREFIX
from terracrew.settings.trees import Path
from terracrew.toolchains import specs

PREFIX = "TERRACREW_"
COMMAND_LINE = ("TERRACREW_CONFIG", "TERRACREW_ORGANIZATION", "TERRACREW_TOKEN", "TERRACREW_URL")
RUNNER = (
    "TERRACREW_API_URL",
    "TERRACREW_CREDENTIAL_HELPER_CMD_ARGS",
    "TERRACREW_CREDENTIAL_HELPER_CMD_PATH",
    "TERRACREW_JOB_DISPATCHER_ALLOW_IMAGES",
    "TERRACREW_JOB_DISPATCHER_ALLOW_MAX_CPU",
    "TERRACREW_JOB_DISPATCHER_ALLOW_MAX_MEMORY_MB",
    "TERRACREW_JOB_DISPATCHER_ALLOW_SERVICE_ACCOUNTS",
    "TERRACREW_JOB_DISPATCHER_TYPE",
    "TERRACREW_RUNNER_CONFIG",
    "TERRACREW_RUNNER_PATH",
    "TERRACREW_RUNNER_RELEASE_KEY",
    "TERRACREW_SERVICE_ACCOUNT_PATH",
    "TERRACREW_SERVICE_DISCOVERY_HOST",
)
"""The variables of a runner that have a name of their own. The others are made from the settings' names."""
JOBS = (
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
    names: list[str] = [*COMMAND_LINE, *RUNNER, *JOBS, *ENGINES, *CONTAINERS]
    beginnings: list[str] = [*OPEN]
    names += [SERVER_PREFIX + field.upper() for field in ServerSettings.model_fields if field not in FILE_ONLY]
    names += [f"{SERVER_PREFIX}CONFIG"]
    names += [name for name, _ in _of_model(External, f"{SERVER_PREFIX}EXTERNAL__")]
    beginnings.append(f"{SERVER_PREFIX}EXTERNAL__SETTINGS__")
    names += [f"{PREFIX}{engine.upper()}_{what}" for engine in specs.ENGINES for what in ("RELEASES", "SHA256")]
    for name, is_open in _of_model(RunnerSettings, PREFIX):
        names.append(name)
        if is_open:
            beginnings.append(f"{name}__")
    return frozenset(names), tuple(beginnings)


def _of_model(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, bool]]:
    """Yield the variable of each setting and each section, and whether any key may follow it."""
    for field, info in model.model_fields.items():
        name = f"{prefix}{field.upper()}"
        kinds = suggestions.kinds(info.annotation)
        yield name, any(_is_open(kind) for kind in kinds)
        for kind in kinds:
            if suggestions.is_model(kind):
                yield from _of_model(kind, f"{name}__")


def _is_open(kind: Any) -> bool:
    return get_origin(kind) is dict or (suggestions.is_model(kind) and kind.model_config.get("extra") == "allow")


def _words(name: str) -> str:
    if (setting := name.removeprefix(SERVER_PREFIX).lower()) in FILE_ONLY:
        return f"only the server's settings file can have {setting}"
    exact, _ = _known()
    near = difflib.get_close_matches(name.upper(), sorted(exact), 1, cutoff=0.7)
    return f"there is no such variable{f'; did you mean {near[0]}?' if near else ''}"
