"""The settings of the dispatchers of a runner: the default one, further ones by name, and what jobs may ask each of them for."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from terracrew import plugins
from terracrew.errors import Invalid
from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import AllowedChoices
from terracrew.runner.config import NamedDispatcher
from terracrew.settings.values import SHOWN, SettingsSection, Shown, VariableNames, checked, split_words

_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_PATTERN = re.compile(r"[A-Za-z0-9_.:/@*?+=,\[\]!-]+")


def _installed(dispatcher: str) -> str:
    if not plugins.has(plugins.DISPATCHERS, dispatcher):
        names = ", ".join(plugins.names(plugins.DISPATCHERS))
        raise Invalid(f"there is no dispatcher {dispatcher!r} here; installed: {names}")
    return dispatcher


def _pattern(text: str) -> str:
    if len(text) > dispatcher_choice.MAX_PATTERN_CHARACTERS or _PATTERN.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name, or a pattern with `*`")
    return text


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a name: use up to 32 lowercase letters, digits and hyphens")
    if text == dispatcher_choice.DEFAULT:
        raise ValueError(f"{text!r} is the name of the dispatcher of job_dispatcher: use another one")
    return text


Patterns = Annotated[
    list[Annotated[str, AfterValidator(_pattern)]], split_words, SHOWN, Field(max_length=dispatcher_choice.MAX_PATTERNS)
]

DispatcherData = Annotated[
    dict[str, str],
    Shown(
        frozenset(
            {
                "api_url",
                "auth_type",
                "bind_path",
                "cluster",
                "cpu_limit",
                "eks_cluster",
                "engines",
                "environment",
                "extra_hosts",
                "host",
                "image",
                "launch_type",
                "local_image",
                "memory_limit",
                "memory_request",
                "namespace",
                "network",
                "pids_limit",
                "pull_seconds",
                "region",
                "subnets",
                "task_definition",
            }
        )
    ),
]
"""Settings of a dispatcher. Only these keys are known to hold no secret: others, and those of plug-ins, are hidden."""


class AllowedSection(SettingsSection):
    """What jobs may ask a dispatcher for. Without it, they get what the settings of the dispatcher say."""

    images: Annotated[Patterns, VariableNames(("TERRACREW_JOB_DISPATCHER_ALLOW_IMAGES",))] = Field(
        default=[],
        description="The images that jobs may ask for, separated by spaces or commas: `*` stands for any characters except "
        "`/`, and `/**` at the end for everything below.",
    )
    max_memory_mb: Annotated[int | None, VariableNames(("TERRACREW_JOB_DISPATCHER_ALLOW_MAX_MEMORY_MB",))] = Field(
        default=None, ge=64, le=999_999, description="The most memory that a job may ask for, in MB."
    )
    max_cpu: Annotated[float | None, VariableNames(("TERRACREW_JOB_DISPATCHER_ALLOW_MAX_CPU",))] = Field(
        default=None, ge=0.1, le=1024, description="The most processors that a job may ask for."
    )
    service_accounts: Annotated[Patterns, VariableNames(("TERRACREW_JOB_DISPATCHER_ALLOW_SERVICE_ACCOUNTS",))] = Field(
        default=[], description="The service accounts that jobs may ask for, with `*` as in `images`."
    )

    def allowed(self) -> AllowedChoices:
        return AllowedChoices(self.images, self.max_memory_mb, self.max_cpu, self.service_accounts)


class JobDispatcher(SettingsSection):
    type: Annotated[str, checked(_installed), SHOWN, VariableNames(("TERRACREW_JOB_DISPATCHER_TYPE",))] = Field(
        default="local",
        min_length=1,
        description="What starts executors: `local` (processes of this machine), `docker` (containers), `kubernetes` (pods), "
        "`ecs` (tasks of Amazon ECS), or a dispatcher of an installed package.",
    )
    data: DispatcherData = Field(
        default={},
        description="Settings of the dispatcher. All of them know `api_url`, the server's address as executors see it; "
        "`local` knows no other, and those of the others are in docs/dispatchers.md. Also TERRACREW_JOB_DISPATCHER_DATA_<NAME>.",
    )
    allow: AllowedSection = Field(default_factory=AllowedSection)

    @property
    def own_data(self) -> dict[str, str]:
        """The settings that only the dispatcher understands."""
        return {name: value for name, value in self.data.items() if name != "api_url"}


class FurtherDispatcher(SettingsSection):
    """A dispatcher besides the default one. Jobs ask for it by its name or its type."""

    type: Annotated[str, checked(_installed), SHOWN] = Field(min_length=1, description="As `job_dispatcher.type`.")
    data: DispatcherData = Field(default={}, description="As `job_dispatcher.data`.")
    allow: AllowedSection = Field(default_factory=AllowedSection)


DispatcherKey = Annotated[str, AfterValidator(_name)]


def named(sections: dict[str, FurtherDispatcher]) -> list[NamedDispatcher]:
    """Return the further dispatchers in the form that the runner process uses."""
    return [
        NamedDispatcher(
            name,
            each.type,
            {key: value for key, value in each.data.items() if key != "api_url"},
            each.allow.allowed(),
            each.data.get("api_url", ""),
        )
        for name, each in sections.items()
    ]
