"""Masks the secrets of a job in what its executor delivers: salvaged output may not have been masked on its runner."""

from collections.abc import Sequence

from terracrew.masking import facts
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import Kind, OutputsRead, Record


class ModuleSecrets:
    def __init__(self, values: Sequence[str]) -> None:
        self._redactor = Redactor(values)

    def __bool__(self) -> bool:
        return bool(self._redactor)

    def mask(self, records: Sequence[Record]) -> list[Record]:
        return [self._masked(record) for record in records]

    def _masked(self, record: Record) -> Record:
        if record.kind == Kind.LOG:
            return record._replace(payload=self._redactor.mask(record.payload))
        if record.kind != Kind.FACT or self._redactor.mask(record.payload) is record.payload:
            return record
        try:
            fact = events.fact_of(record)
        except ValueError:
            return record  # it is passed over, and shown to nobody
        is_outputs = isinstance(fact, OutputsRead)
        masked = facts.hide_outputs(fact, self._redactor) if is_outputs else facts.masked(fact, self._redactor)
        return record._replace(payload=events.pack_fact(masked, record.step_name, record.time)[events.HEADER.size :])


NO_SECRETS = ModuleSecrets([])
"""Of the jobs that have none, which are most."""
