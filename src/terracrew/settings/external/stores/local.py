"""Reads external settings from this machine: files, environment variables, and what programs print, such as a password manager."""

import os
from collections.abc import Mapping

from terracrew.errors import NotFound
from terracrew.settings.external.references import Reference
from terracrew.settings.external.stores import contract
from terracrew.settings.external.stores.contract import ReadDeadline
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds


class Files:
    reread_seconds = None

    def read(self, reference: Reference) -> str:
        return contract.field_of(contract.file_text(reference.target), reference.field)

    def close(self) -> None:
        """Files hold nothing open."""


class Variables:
    reread_seconds = None

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ

    def read(self, reference: Reference) -> str:
        if reference.target not in self._environ:
            raise NotFound(f"there is no environment variable {reference.target}")
        return contract.text_of(self._environ[reference.target].encode(errors="surrogateescape"))

    def close(self) -> None:
        """The environment holds nothing open."""


_OWN_VARIABLES = "TERRACREW_"


class Programs:
    reread_seconds = None

    def __init__(self, deadline: ReadDeadline) -> None:
        self._deadline = deadline

    def read(self, reference: Reference) -> str:
        """Run the program without a shell. It gets none of Terracrew's own variables, because some of them are secrets."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
        printed = bounded_program.run_blocking(
            reference.command,
            purpose="the program",
            bounds=ProgramBounds(self._deadline.seconds_left, contract.MAX_VALUE_BYTES),
            environment=environment,
        )
        return contract.text_of(printed)

    def close(self) -> None:
        """A program that has ended holds nothing open."""
