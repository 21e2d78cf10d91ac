"""The limits of what a runner says about itself and of its log settings. Settings, hub, API and command line enforce the same ones."""

MAX_INSTANCE_NAME_CHARACTERS = 100
MAX_CAPACITY = 1_000
"""The most jobs that one instance runs at once."""
MAX_ENGINES = 20
MAX_ENGINE_VERSIONS = 20
"""How many versions of one engine a runner announces."""
MAX_LABEL_CHARACTERS = 100
"""The length of other short texts in a hello: versions, and names of engines."""
MAX_PLACE_CHARACTERS = 500
"""The length of what a runner says about where it is installed: a directory, or the reference of an image."""
MAX_LOG_BATCH_EVENTS = 10_000
MAX_LOG_PERIOD_SECONDS = 3_600

MAX_PATH_LEVELS = 20
MAX_PATH_NAME_CHARACTERS = 63
_MAX_TIME_SECONDS = 250_000_000_000
"""The year 9892; Python knows no times after 9999."""
PATH_NAME = rf"[a-z0-9][a-z0-9-]{{0,{MAX_PATH_NAME_CHARACTERS - 1}}}"
"""The regular expression of one name in a path of the tree, such as the path of a runner."""


def is_label(text: str, max_characters: int = MAX_LABEL_CHARACTERS) -> bool:
    """Return whether a text is short and printable, so that it can be stored and shown everywhere."""
    return len(text) <= max_characters and text.isprintable()


def is_time(at: float | None) -> bool:
    """Return whether these seconds since 1970 can be stored and shown as a time."""
    return at is None or 0 <= at < _MAX_TIME_SECONDS


def is_instance_name(text: str) -> bool:
    """Return whether an instance may have this name, and whether a module can be pinned to it."""
    return bool(text.strip()) and is_label(text, MAX_INSTANCE_NAME_CHARACTERS)
