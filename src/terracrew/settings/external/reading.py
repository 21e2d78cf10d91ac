"""Reads all references at once: each kind of store in a thread of its own, all of them within one deadline."""

import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from terracrew.errors import TerracrewError
from terracrew.settings.external import references
from terracrew.settings.external.references import Reference
from terracrew.settings.external.section import External
from terracrew.settings.external.stores.aws import Aws
from terracrew.settings.external.stores.azure import AzureKeyVault
from terracrew.settings.external.stores.contract import ReadDeadline, Store
from terracrew.settings.external.stores.local import Files, Programs, Variables
from terracrew.settings.external.stores.vault import Vault
from terracrew.settings.trees import Path


class ExternalReading(NamedTuple):
    values: dict[Path, str]
    failures: dict[Path, str]
    """Why a setting has no value, in words that name no value."""
    reread_seconds: float | None


_STORES: dict[str, Callable[[External, ReadDeadline], Store]] = {
    references.FILE: lambda _settings, _deadline: Files(),
    references.VARIABLE: lambda _settings, _deadline: Variables(),
    references.PROGRAM: lambda _settings, deadline: Programs(deadline),
    references.VAULT: lambda settings, deadline: Vault(settings.vault, deadline),
    references.AWS_SECRET: lambda settings, deadline: Aws(settings.aws, deadline),
    references.AWS_PARAMETER: lambda settings, deadline: Aws(settings.aws, deadline),
    references.AZURE: lambda settings, deadline: AzureKeyVault(settings.azure, deadline),
}


class _StoreThread(threading.Thread):
    """Reads the references to one store, one after the other. It does not keep the process from ending."""

    def __init__(self, open_store: Callable[[], Store], wanted: Mapping[Path, Reference]) -> None:
        super().__init__(daemon=True, name="external-settings")
        self._open, self._wanted = open_store, wanted
        self.values: dict[Path, str] = {}
        self.failures: dict[Path, str] = {}
        self.reread_seconds: float | None = None

    def run(self) -> None:
        try:
            store = self._open()
        except TerracrewError as error:
            self.failures |= dict.fromkeys(self._wanted, error.message)
            return
        for path, reference in self._wanted.items():
            self._read(store, path, reference)
        self.reread_seconds = store.reread_seconds
        store.close()

    def _read(self, store: Store, path: Path, reference: Reference) -> None:
        try:
            value = store.read(reference)
        except TerracrewError as error:
            self.failures[path] = error.message
        except Exception as error:
            # A defect of ours. Its text and its traceback may hold a value.
            self.failures[path] = f"it cannot be read because of an internal error ({type(error).__name__})"
        else:
            if value:
                self.values[path] = value
            else:
                self.failures[path] = "the value is empty"


def read(settings: External, wanted: Mapping[Path, Reference]) -> ExternalReading:
    """Read the values of these settings. What a store has not answered when the time is over is a failure."""
    deadline = ReadDeadline(settings.timeout_seconds)
    threads: list[tuple[_StoreThread, dict[Path, Reference]]] = []
    for scheme in dict.fromkeys(each.scheme for each in wanted.values()):
        of_store = {path: each for path, each in wanted.items() if each.scheme == scheme}
        opening = _opening(scheme, settings, deadline)
        threads.append((_StoreThread(opening, of_store), of_store))
    for thread, _ in threads:
        thread.start()
    reading = ExternalReading({}, {}, None)
    for thread, of_store in threads:
        thread.join(deadline.seconds_left)
        # A thread that is late may still add to its results, so they are copied.
        reading.values.update(dict(thread.values))
        reading.failures.update(dict(thread.failures))
        for path in of_store.keys() - reading.values.keys() - reading.failures.keys():
            reading.failures[path] = f"it was not read within {settings.timeout_seconds:g} s (external.timeout_seconds)"
        if thread.reread_seconds is not None:
            reading = reading._replace(reread_seconds=thread.reread_seconds)
    return reading


def _opening(scheme: str, settings: External, deadline: ReadDeadline) -> Callable[[], Store]:
    return lambda: _STORES[scheme](settings, deadline)
