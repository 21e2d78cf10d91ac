"""`terracrew completion`: the completion script for a shell."""

import click
from click.shell_completion import get_completion_class

_INSTALL = {
    "bash": 'eval "$(terracrew completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(terracrew completion zsh)"   # in ~/.zshrc',
    "fish": "terracrew completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_INSTALL.values()))
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "terracrew", "_TERRACREW_COMPLETE").source())
