"""Groups of commands: they list each with a whole sentence, and import some only when they are called, to stay quick."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

MAX_SENTENCE_CHARACTERS = 500
"""How much of the first sentence of a command's help a list of commands shows. A longer line is broken, not cut off."""


class LazyGroup(click.Group):
    """A group of commands. Its list has whole sentences. `lazy` maps names to `module:attribute` and its line in the list of commands."""

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._lazy:
            return super().get_command(ctx, cmd_name)
        place, attribute = self._lazy[cmd_name][0].split(":")
        return getattr(import_module(place), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, line) for name, (_, line) in self._lazy.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command and not command.hidden:
                rows.append((name, command.get_short_help_str(limit=MAX_SENTENCE_CHARACTERS)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # Click suggests only what is already imported.
            raise click.NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None
