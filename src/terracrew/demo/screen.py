"""Shows the stages of the demo on the screen and writes the engines' output to a file, prefixed by the module's name."""

import time
from typing import TextIO

import click

from terracrew.wording.durations import duration


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
        took = click.style(duration(time.monotonic() - self._started, exact=True), dim=True)
        click.echo(f"      {click.style('✓', fg='green')} {words}  {took}")


class Lines:
    """Writes one job's log to the file, with the name of its module before each line."""

    def __init__(self, name: str, width: int, file: TextIO) -> None:
        self._prefix = name.ljust(width) + " │ "
        self._file = file
        self._rest = ""

    def write(self, text: str) -> None:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            # A line that sets a colour and does not end it must not colour its neighbours.
            self._file.write(f"{self._prefix}{line}" + ("\x1b[0m" if "\x1b[" in line else "") + "\n")
        self._file.flush()

    def finish(self) -> None:
        if self._rest:
            self.write("\n")
