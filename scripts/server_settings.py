"""Prints docs/server-settings.md from the options of `terracrew server`."""

import click

from terracrew.cli.commands.server.server import server

HEAD = """# The server's settings

Each setting is an option of `terracrew server` (some also of `terracrew up`) or an environment variable; the option overrides the
variable. `scripts/server_settings.py` generates this page.

| option | variable | what it is |
|---|---|---|"""


def rows() -> list[str]:
    """Return one row for each option, in the order of the help."""
    found: list[str] = []
    for each in server.params:
        if isinstance(each, click.Option) and each.envvar:
            text = (each.help or "").replace("|", "\\|").replace("<", "&lt;")
            found.append(f"| `{each.opts[0]}` | `{each.envvar}` | {text} |")
    return found


if __name__ == "__main__":
    print("\n".join([HEAD, *rows()]))
