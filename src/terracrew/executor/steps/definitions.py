"""The values of inputs that say something about the job itself, such as the path of its module."""

from collections.abc import Callable
from typing import Any

from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import DefinedInput, Definition, JobSpec

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


def value(wanted: DefinedInput, spec: JobSpec, source: SourceResolved) -> Any:
    """Return the value of a variable."""
    return _VALUES[wanted.definition](spec, source)


def text(wanted: DefinedInput, spec: JobSpec, source: SourceResolved) -> str:
    """Return the value of an environment variable."""
    return str(value(wanted, spec, source))
