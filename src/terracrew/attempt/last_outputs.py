"""The outputs that a job has read, without sensitive ones: the executor leaves them in the attempt's directory, and the runner keeps
those of each module's last job in its working directory, where programs of the machine can read them."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import directories, files
from terracrew.protocol.events import MAX_INLINE_OUTPUTS_BYTES, Output
from terracrew.protocol.spec import JobSpec
from terracrew.system import durable

MAX_KEPT_MODULES = 1000
"""The outputs of the modules whose jobs ended longest ago are removed."""


class LastOutputs(msgspec.Struct, frozen=True):
    module_id: str
    module: str
    """The path of the module when the job ran."""
    job: int
    attempt: int
    sha256: str
    """The checksum of all outputs, sensitive ones included."""
    outputs: dict[str, Any]


_decode = msgspec.json.Decoder(LastOutputs).decode


def record(directory: Path, spec: JobSpec, outputs: Mapping[str, Output], sha256: str) -> None:
    """Write what the runner may keep. Outputs that are too large for that count as none."""
    shown = {name: one.value for name, one in outputs.items() if not one.is_sensitive}
    found = LastOutputs(spec.module_id, spec.module_path, spec.number, spec.attempt, sha256, shown)
    content = msgspec.json.encode(found)
    if len(content) > MAX_INLINE_OUTPUTS_BYTES:
        content = msgspec.json.encode(msgspec.structs.replace(found, outputs={}))
    # It is not durable: the server has the outputs.
    with contextlib.suppress(OSError):
        (directory / files.LAST_OUTPUTS).write_bytes(content)


def keep(directory: Path, kept: Path) -> None:
    """Keep the outputs of an attempt that has ended, if it has read any, in place of those of an earlier job."""
    try:
        found = _decode((directory / files.LAST_OUTPUTS).read_bytes())
    except (OSError, ValueError):
        return
    if not directories.is_module_id(found.module_id):  # it becomes part of a path
        return
    path = kept / f"{found.module_id}.json"
    with contextlib.suppress(OSError):  # a full disk costs this copy, and nothing else
        if found.outputs:
            content = msgspec.json.format(msgspec.json.encode(found), indent=2)
            os.replace(durable.write_draft(path, content, is_synced=False), path)
            _remove_oldest(kept)
        else:
            path.unlink(missing_ok=True)


def _remove_oldest(kept: Path) -> None:
    entries = list(os.scandir(kept))
    if len(entries) > MAX_KEPT_MODULES:
        for entry in sorted(entries, key=lambda each: each.stat().st_mtime)[: len(entries) - MAX_KEPT_MODULES]:
            os.unlink(entry.path)
