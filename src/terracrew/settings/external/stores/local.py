"""Reads external settings from this machine: files and environment variables."""

import os
from collections.abc import Mapping

from terracrew.errors import NotFound
from terracrew.settings.external.references import Reference
from terracrew.settings.external.stores import contract


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
