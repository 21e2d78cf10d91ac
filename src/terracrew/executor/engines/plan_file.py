"""Takes a new plan out of the reach of the engine, so that the plan that is applied is the one that was described.

Hooks and providers run between the description of a plan and its apply, and they can write wherever the engine can. The plan is
copied and not moved: one of them may have opened the file of the engine before.
"""

import hashlib
import os
from pathlib import Path

from terracrew.attempt.engine_directory import EngineDirectory, open_produced
from terracrew.errors import Conflict, TooLarge

MAX_PLAN_BYTES = 1 << 30
"""The largest plan that a server accepts."""
_READ_BYTES = 1 << 20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def take(files: EngineDirectory) -> str:
    """Copy the plan that the engine has just made to where the engine can only read it, and return its hash."""
    files.plan.unlink(missing_ok=True)
    digest, size = hashlib.sha256(), 0
    with open_produced(files.new_plan) as made, open(os.open(files.plan, _NEW_FILE, 0o600), "wb") as taken:
        while chunk := made.read(_READ_BYTES):
            size += len(chunk)
            if size > MAX_PLAN_BYTES:  # a sparse file can be huge without using disk space
                raise TooLarge(f"the plan has more than the {MAX_PLAN_BYTES:,} bytes that a plan may have")
            digest.update(chunk)
            taken.write(chunk)
    files.new_plan.unlink(missing_ok=True)
    return digest.hexdigest()


def digest_of(plan: Path) -> str:
    with open_produced(plan) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check(plan: Path, sha256: str) -> None:
    """Raise Conflict if this is not the plan that was described. Without isolation, the engine can write to every file."""
    if digest_of(plan) != sha256:
        raise Conflict(
            "the plan was changed after it was described, so it is not applied. A hook, a provider or another process of this "
            "machine has written to its file"
        )
