"""What the demo shows: its stages, the engines' own words beside the module they belong to, and the result."""

import time

import click

_SHOWN = 90
_LAST = 10
_COLOURS = ("cyan", "magenta", "yellow", "blue", "green")


class Stages:
    """Numbered stages, each with the time that it took."""

    def __init__(self, count: int) -> None:
        self._count, self._number = count, 0
        self._started = time.monotonic()

    def begin(self, title: str) -> None:
        self._number += 1
        self._started = time.monotonic()
        click.echo(f"{click.style(f'[{self._number}/{self._count}]', dim=True)} {click.style(title, bold=True)}")

    def done(self, words: str) -> None:
        took = click.style(f"{time.monotonic() - self._started:.1f} s", dim=True)
        click.echo(f"      {click.style('✓', fg='green')} {words}  {took}")


class Lines:
    """One job's log. Of a long one the beginning and the end are shown, and how much lies between."""

    def __init__(self, name: str, width: int, position: int) -> None:
        self._prefix = click.style(name.ljust(width) + " │ ", fg=_COLOURS[position % len(_COLOURS)])
        self._rest = ""
        self._count = 0
        self._held: list[str] = []

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._count += 1
            if self._count <= _SHOWN:
                self._show(line)
            else:
                self._held.append(line)
        del self._held[:-_LAST]

    def finish(self) -> None:
        if self._rest:
            self.write("\n")
        left_out = self._count - _SHOWN - len(self._held)
        if left_out > 0:
            self._show(click.style(f"… {left_out:,} lines more in its log", dim=True))
        for line in self._held:
            self._show(line)
        self._held = []

    def _show(self, line: str) -> None:
        # A line that sets a colour and does not end it must not colour its neighbours.
        click.echo(f"{self._prefix}{line}" + ("\x1b[0m" if "\x1b[" in line else ""))
