"""Reads external settings from the standard output of programs, such as a password manager's command."""

import os

from terracrew.settings.external.references import Reference
from terracrew.settings.external.stores import contract
from terracrew.settings.external.stores.contract import ReadDeadline
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds

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
