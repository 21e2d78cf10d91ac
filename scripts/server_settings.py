"""Prints docs/server-settings.md: every setting of a server, from the options of its command."""

import click

from terracrew.cli.commands.server.server import server

HEAD = """# The server's settings

Each is an option of `terracrew server` (some of `terracrew up`, too) or an environment variable; the option wins. Made by
`scripts/server_settings.py`.

| option | variable | what it is |
|---|---|---|"""


def rows() -> list[str]:
    """One row an option, in the order of the help."""
    found: list[str] = []
    for each in server.params:
        if isinstance(each, click.Option) and each.envvar:
            text = (each.help or "").replace("|", "\\|").replace("<", "&lt;")
            found.append(f"| `{each.opts[0]}` | `{each.envvar}` | {text} |")
    return found


if __name__ == "__main__":
    print("\n".join([HEAD, *rows()]))
