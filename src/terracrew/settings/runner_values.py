"""Types of settings that only a runner has: log levels, the name of an instance, and paths in the server's tree."""

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from terracrew.protocol import limits
from terracrew.settings.values import absolute

Level = Literal["Trace", "Debug", "Information", "Warning", "Error", "Critical", "None"]
_LEVELS = {"trace", "debug", "information", "warning", "error", "critical", "none"}
_PATH = re.compile(rf"{limits.PATH_NAME}(/{limits.PATH_NAME}){{0,{limits.MAX_PATH_LEVELS - 1}}}")


def _canonical(level: Any) -> Any:
    return level.capitalize() if isinstance(level, str) and level.lower() in _LEVELS else level


def _instance(text: str) -> str:
    if not limits.is_instance_name(text):
        raise ValueError(f"{text!r} has a character that cannot be printed, or only spaces")
    return text


def _cgroup(text: str) -> str:
    if text not in ("auto", "off") and not text.startswith(("/", "~")):
        raise ValueError(f"{text!r} is not `auto`, `off` or the absolute path of a cgroup")
    return text if text in ("auto", "off") else absolute(text)


def _tree_path(text: str) -> str:
    if not _PATH.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a path: use names of lowercase letters, digits and hyphens with `/` between them, "
            "such as `spectre/spaceship/impatient`"
        )
    return text


Cgroup = Annotated[str, AfterValidator(_cgroup)]
LogLevel = Annotated[Level, BeforeValidator(_canonical)]
InstanceName = Annotated[
    str, Field(min_length=1, max_length=limits.MAX_INSTANCE_NAME_CHARACTERS), AfterValidator(_instance)
]
TreePath = Annotated[str, AfterValidator(_tree_path)]
