"""What a job asks of the dispatcher that starts its executor, what a dispatcher allows, and whether the two fit.

Server and runner use the same rule: the server to find a runner for the job, and the runner before it starts the executor,
because it does not trust the server with its allow-list.
"""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec

from terracrew.protocol.field import Field

DEFAULT = "default"
"""The name of the dispatcher that a runner uses for jobs that ask for none."""
MAX_DISPATCHERS = 16
"""How many dispatchers a runner may offer."""
MAX_PATTERNS = 50
"""How many patterns of images, and of service accounts, a dispatcher may allow."""
MAX_PATTERN_CHARACTERS = 300
MAX_OFFER_BYTES = 64 << 10
"""How much a runner may say of all its dispatchers, encoded as JSON. The server keeps it with each instance, and reads it for each job."""
_IMAGE_PATTERN = r"^(?!.*(\.\.|//))[A-Za-z0-9][A-Za-z0-9_.:/@-]*\Z"

DispatcherName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z][a-z0-9-]*\Z",
        max_length=32,
        description="the name or the type of a dispatcher, such as `docker`",
    ),
]
ImageName = Annotated[
    str,
    msgspec.Meta(
        pattern=_IMAGE_PATTERN,
        max_length=300,
        description="the name of an image, such as `registry.example/terracrew-executor:1.0`",
    ),
]
AccountName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:/+=,@-]*\Z",
        max_length=253,
        description="the name of a service account, such as `deploy-network`",
    ),
]
"""A service account of Kubernetes, or what another dispatcher calls the identity of an executor, such as the ARN of a role."""
MemoryMegabytes = Annotated[int, msgspec.Meta(ge=64, le=999_999)]
Processors = Annotated[float, msgspec.Meta(ge=0.1, le=1024)]
ChoiceField = Literal["image", "memory_mb", "cpu", "service_account"]


class DispatcherChoice(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, cache_hash=True):
    """What a job asks for. A field that is None is left to the dispatcher."""

    name: Annotated[DispatcherName | None, Field(label="Dispatcher", option="--dispatcher", metavar="NAME")] = None
    """The name or the type of a dispatcher of a runner, such as `kubernetes`. Without one, the runner uses its default dispatcher."""
    image: Annotated[ImageName | None, Field(option="--executor-image", metavar="IMAGE")] = None
    """The image that executors run in."""
    memory_mb: Annotated[
        MemoryMegabytes | None, Field(label="Memory", option="--executor-memory", metavar="2GB", unit="megabytes")
    ] = None
    """The memory of an executor, in units of 1,048,576 bytes."""
    cpu: Annotated[Processors | None, Field(label="Processors", option="--executor-cpu", metavar="N")] = None
    """The processors of an executor."""
    service_account: Annotated[AccountName | None, Field(option="--executor-service-account", metavar="NAME")] = None
    """The service account that executors run as."""

    def __bool__(self) -> bool:
        return self != NO_CHOICE


NO_CHOICE = DispatcherChoice()


class AllowedChoices(msgspec.Struct, frozen=True, omit_defaults=True):
    """What jobs may ask a dispatcher for. By default they may ask for nothing."""

    images: list[str] = []
    """Patterns: `*` stands for any characters except `/`, and `/**` at the end for everything below."""
    max_memory_mb: int | None = None
    max_cpu: float | None = None
    service_accounts: list[str] = []


class OfferedDispatcher(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dispatcher of a runner, as the runner announces it."""

    name: str
    type: str
    allows: AllowedChoices = msgspec.field(default_factory=AllowedChoices)
    engines: dict[str, list[str]] = {}
    """The engines of its executors, each with its versions, the default one first."""


def named(wanted: str | None, offers: Iterable[OfferedDispatcher]) -> list[OfferedDispatcher]:
    """Return the dispatchers with this name or, if there is none, those of this type."""
    offers = list(offers)
    by_name = [each for each in offers if each.name == (wanted or DEFAULT)]
    return by_name or [each for each in offers if each.type == wanted]


def find(choice: DispatcherChoice, offers: Sequence[OfferedDispatcher]) -> OfferedDispatcher | None:
    """Return the first dispatcher that a job can have what it asks for from; None if there is none."""
    return next((each for each in named(choice.name, offers) if not refused(choice, each.allows)), None)


def refused(choice: DispatcherChoice, allows: AllowedChoices) -> list[ChoiceField]:
    """Return the fields of a choice that a dispatcher does not allow."""
    found: list[ChoiceField] = []
    if choice.image is not None and not matches(choice.image, allows.images):
        found.append("image")
    if choice.memory_mb is not None and choice.memory_mb > (allows.max_memory_mb or 0):
        found.append("memory_mb")
    if choice.cpu is not None and choice.cpu > (allows.max_cpu or 0):
        found.append("cpu")
    if choice.service_account is not None and not matches(choice.service_account, allows.service_accounts):
        found.append("service_account")
    return found


def objections(choice: DispatcherChoice, allows: AllowedChoices) -> list[str]:
    """Return in words what a dispatcher does not allow, each with what it does allow."""
    memory = f"up to {allows.max_memory_mb} MB" if allows.max_memory_mb else ""
    words: dict[ChoiceField, tuple[str, str]] = {
        "image": (f"the image {choice.image}", ", ".join(allows.images)),
        "memory_mb": (f"{choice.memory_mb} MB of memory", memory),
        "cpu": (f"{choice.cpu or 0:g} processors", f"up to {allows.max_cpu:g}" if allows.max_cpu else ""),
        "service_account": (f"the service account {choice.service_account}", ", ".join(allows.service_accounts)),
    }
    return [f"{words[each][0]} (allowed: {words[each][1] or 'none'})" for each in refused(choice, allows)]


def matches(text: str, patterns: Iterable[str]) -> bool:
    """Return whether a text matches one of these patterns."""
    return any(_matches(text, each) for each in patterns)


def _matches(text: str, pattern: str) -> bool:
    # `*` stops at `/`, so that `executor-*` does not match an image of another registry, such as `executor-x.example/image`.
    texts, parts = text.split("/"), pattern.split("/")
    if parts[-1] == "**" and len(texts) >= len(parts):
        parts.pop()
        texts = texts[: len(parts)]
    return len(texts) == len(parts) and all(map(fnmatch.fnmatchcase, texts, parts))


APPLIED: dict[str, frozenset[ChoiceField]] = {
    "local": frozenset(),
    "docker": frozenset({"image", "memory_mb", "cpu"}),
    "kubernetes": frozenset({"image", "memory_mb", "cpu", "service_account"}),
    "ecs": frozenset({"memory_mb", "cpu", "service_account"}),
}
"""By type. A dispatcher of another package is not listed, and has to apply everything that its allow-list has."""
