"""Changes the settings that operators set while a runner's processes run."""

from terracrew.api import fields
from terracrew.api.runners import MAX_CATEGORIES, UNCONFIGURED, Configuration, ConfigurationChange
from terracrew.errors import Invalid


def changed(before: Configuration, change: ConfigurationChange | None) -> Configuration:
    """Return the configuration after a change; None removes everything."""
    if change is None:
        return UNCONFIGURED
    after = fields.changed(before, change)
    if len(after.log_level) > MAX_CATEGORIES:
        raise Invalid(
            f"log_level: levels can be set for up to {MAX_CATEGORIES} categories", field="configuration.log_level"
        )
    return after
