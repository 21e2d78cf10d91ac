"""The record of an attempt: what a delivery needs, durable before a program of the attempt is started."""

from pathlib import Path

import msgspec

from terracrew.attempt import files
from terracrew.protocol.messages import Granted
from terracrew.system import durable


class AttemptRecord(msgspec.Struct, frozen=True):
    """`attempt.json` (0600) in the attempt's directory."""

    job_id: str
    attempt: int
    server_url: str
    hub: str
    """The attempt's hub credential. It can deliver what is left of the attempt, even when the runner was removed."""
    secrets: list[str]
    """Values to mask in what the engine still prints."""
    module_path: str = ""
    receipt: str = ""
    """Shown to a server that does not know the credential, because its database was set back."""

    def __repr__(self) -> str:
        return f"AttemptRecord({self.job_id!r}, {self.attempt})"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AttemptRecord).decode


def for_grant(granted: Granted, server_url: str) -> AttemptRecord:
    spec, credentials = granted.spec, granted.credentials
    secrets = [credentials.hub, credentials.api]
    return AttemptRecord(
        spec.job_id, spec.attempt, server_url, credentials.hub, secrets, spec.module_path, credentials.receipt
    )


def write(directory: Path, record: AttemptRecord) -> None:
    """Write the record. `directories.sync` makes it durable."""
    path = directory / files.RECORD
    durable.write_draft(path, _encode(record), is_synced=False).replace(path)


def read(directory: Path) -> AttemptRecord:
    """Read the record. Raise FileNotFoundError if there is none, and ValueError if it is damaged."""
    return _decode((directory / files.RECORD).read_bytes())


def find(directory: Path) -> AttemptRecord | None:
    """Read the record; None where it cannot be read, so that nothing can be delivered."""
    try:
        return read(directory)
    except (FileNotFoundError, ValueError):
        return None
