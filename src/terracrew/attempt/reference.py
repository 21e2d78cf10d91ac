"""Names that are derived from an attempt's reference. `AttemptRef` itself is in `protocol.messages`, since messages carry it."""

from terracrew.protocol.messages import AttemptRef


def directory_name(ref: AttemptRef) -> str:
    """Return the name of the attempt's directory, of its engine directory and of a workspace that it creates."""
    return f"{ref.job_id}.{ref.attempt}"


def parse_directory_name(name: str) -> AttemptRef | None:
    """Return the reference that this name was made from, or None if no attempt has this name."""
    job_id, _, attempt = name.rpartition(".")
    if not is_job_id(job_id) or not (attempt.isascii() and attempt.isdecimal()):
        return None
    return AttemptRef(job_id, int(attempt))


def is_job_id(text: str) -> bool:
    """Return whether this can be part of a directory's name and be read back from it."""
    return text.isidentifier() and text.isascii()


def is_module_id(text: str) -> bool:
    """Return whether this can be part of a file's name."""
    return is_job_id(text)
