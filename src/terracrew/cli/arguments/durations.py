"""Durations as values of options: `90s`, `30m`, `24h`, `7d`."""

import click

from terracrew.wording import durations


class Duration(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts a number with a unit to seconds."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = durations.parse(value)
        if found is None:
            self.fail(f"{value!r} is not a duration: write 90s, 30m, 24h or 7d", param, ctx)
        return found
