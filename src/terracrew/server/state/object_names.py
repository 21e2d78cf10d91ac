"""Names of states and large outputs in the object store: `states/<job>/<attempt>/<event>_<hash>`.

The hash is part of the name, so that nothing that was stored can ever be replaced by something else.
"""

import re

_NAME = re.compile(r"states/(?P<job_id>\w+)/(?P<attempt>\d+)/(?P<event>\d+)_\w+\Z")


def of_event(job_id: str, attempt: int, event: int, sha256: str) -> str:
    """Return the name of the object that came with this event."""
    return f"{folder(job_id, attempt)}/{event}_{sha256}"


def of_unreadable_event(job_id: str, attempt: int, event: int, sha256: str) -> str:
    """Return the name of an object that came with this event and cannot be decrypted, or does not match the event."""
    return f"{folder(job_id, attempt)}/{event}_raw_{sha256}"


def folder(job_id: str, attempt: int) -> str:
    return f"states/{job_id}/{attempt}"


def parse(name: str) -> tuple[str, int, int]:
    """Return the job, the attempt and the event of an object."""
    found = _NAME.match(name)
    if found is None:
        raise ValueError(f"{name!r} does not name the object of a state")
    return found["job_id"], int(found["attempt"]), int(found["event"])
