"""`terracrew server settings`, `environment`, `schema` and `worker-token`: what the settings are and do, and a new token for them."""

import secrets

import click

from terracrew.cli.commands.server.serve import Given, pass_given
from terracrew.cli.printing import output, settings_table
from terracrew.errors import Invalid


@click.command("settings")
@output.json_option
@pass_given
def settings(given: Given) -> output.CommandResult:
    """Print the effective settings, each with the layer that it came from. Secrets are hidden.

    The layers are, from low to high: defaults, the settings file, the environment, the command line. The options of
    `server` go before the command: `terracrew server --config server.toml settings`.
    """
    return settings_table.show_effective(given.merged())


@click.command("environment")
@output.json_option
@pass_given
def environment(given: Given) -> output.CommandResult:
    """Print which variables of this shell the engines of built-in runners would get, without their values.

    `runner_environment` names further ones. The options of `server` go before the command. `terracrew up` has its own list:
    `terracrew up --show-environment`.
    """
    return given.environment_of_engines()


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors (`"$schema"`) and programs."""
    from terracrew.settings import server

    output.print_json(server.schema())


@click.command("worker-token")
@click.argument("name")
@output.json_option
def worker_token(name: str) -> output.CommandResult:
    """Make a token for the remote shared runner NAME: a hash for the settings file, and variables for the runner.

    Nothing is stored, and the token is shown only once. The hash is not a secret.
    """
    import hashlib

    from terracrew import ids
    from terracrew.settings import shared_runners

    try:
        shared_runners.name(name)
    except ValueError as error:
        raise Invalid(str(error)) from None
    runner_id = ids.of_name("rnr", name)
    token = f"tcw_{secrets.token_urlsafe(32)}"
    sha256 = hashlib.sha256(token.encode()).hexdigest()
    environment = {
        "TERRACREW_RUNNER__ID": runner_id,
        "TERRACREW_RUNNER__ORGANIZATION_ID": "shared",
        "TERRACREW_RUNNER__INSTANCE": name,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": runner_id,
        "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": token,
    }

    def show() -> None:
        output.note("For the server's settings file:")
        click.echo(f'[shared_runners.{name}]\nkind = "remote"\nworker_token_sha256 = "{sha256}"')
        output.note(
            "For the runner's machine, beside TERRACREW_API_URL; the token is shown only this once. Each process needs an "
            "instance name of its own:"
        )
        for variable, value in environment.items():
            click.echo(f"export {variable}={value}")

    return output.CommandResult({"name": name, "worker_token_sha256": sha256, "environment": environment}, show)
