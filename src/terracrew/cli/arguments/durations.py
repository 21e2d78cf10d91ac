"""Durations as people write them: `90s`, `30m`, `24h`, `7d`."""

import re

import click

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_WRITTEN = re.compile(r"(\d{1,9})([smhd]?)\Z")


class Duration(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """Converts a number with an optional unit to seconds."""

    name = "duration"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _WRITTEN.match(value.strip())
        if found is None:
            self.fail(f"{value!r} is not a duration: write 90s, 30m, 24h or 7d", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


def written(seconds: int) -> str:
    """Write a number of seconds in the largest unit that divides it."""
    unit = next(name for name in ("d", "h", "m", "s") if seconds % _UNITS[name] == 0)
    return f"{seconds // _UNITS[unit]}{unit}"
