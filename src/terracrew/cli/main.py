"""`terracrew`: the entry, the commands there are, and the border where an error becomes a message and an exit code."""

import sys
from pathlib import Path

import click

from terracrew import __version__
from terracrew.cli import terminal
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.target import Target
from terracrew.errors import TerracrewError
from terracrew.escapes import plain

INTERRUPTED = 130

COMMANDS = {
    "up": ("terracrew.cli.up:up", "Start everything on this machine: server, SQLite, a runner."),
    "demo": ("terracrew.cli.demo:demo", "Start everything and run the sample modules."),
    "login": ("terracrew.cli.login:login", "Store the address of a server and a token for it."),
    "logout": ("terracrew.cli.login:logout", "Forget the token of a server."),
    "whoami": ("terracrew.cli.whoami:whoami", "Show as whom, and at which server, this command line acts."),
    "module": ("terracrew.cli.module:module", "Modules: a source, an engine and its inputs."),
    "group": ("terracrew.cli.group:group", "Groups: the tree that modules and runners live in."),
    "job": ("terracrew.cli.job:job", "Run jobs, follow their logs, decide about their plans."),
    "state": ("terracrew.cli.state:state", "States of modules: list, print, adopt, discard."),
    "runner": ("terracrew.cli.runner:runner", "Start, register and look after runners."),
    "token": ("terracrew.cli.token:token", "API tokens for scripts."),
    "user": ("terracrew.cli.user:user", "The people of the organization."),
    "role": ("terracrew.cli.role:role", "Who may do what at which group or module."),
    "service-account": ("terracrew.cli.service_account:service_account", "Accounts for programs, and their secrets."),
    "audit": ("terracrew.cli.audit:audit", "Who changed what, and when."),
    "events": ("terracrew.cli.events:events", "Print what changes on the server, as it changes."),
    "api": ("terracrew.cli.raw:api", "Send one request to the API."),
    "engine": ("terracrew.cli.engine:engine", "Find and install OpenTofu, Terraform and Pulumi."),
    "server": ("terracrew.cli.server:server", "Start the control plane alone."),
    "config": ("terracrew.cli.config:config", "Which server this command line talks to."),
    "completion": ("terracrew.cli.completion:completion", "Print the completion script for a shell."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="terracrew", message="%(prog)s %(version)s")
@click.option("--url", metavar="URL", help="The server's address; before TERRACREW_URL and the profile's.")
@click.option("--profile", metavar="NAME", help="A profile of the configuration file; see `terracrew config`.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that holds the token; before TERRACREW_TOKEN and the profile's.",
)
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.pass_context
def cli(ctx: click.Context, url: str | None, profile: str | None, token_file: Path | None, debug: bool) -> None:
    """A control plane and a crew of runners for Terraform, OpenTofu and Pulumi.

    `terracrew demo` shows it at work; `terracrew up` starts it for good.
    """
    ctx.obj = Target(url, profile, token_file)
    ctx.meta["debug"] = debug


def main() -> None:
    """Run the command line of this process; its exit code says how it went."""
    terminal.guard()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; see docs/cli.md for what each means."""
    try:
        result = cli.main(arguments, prog_name="terracrew", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return INTERRUPTED
    except TerracrewError as error:
        if "--debug" in arguments:
            raise
        click.echo(message(error), err=True)
        return error.exit_code


def message(error: TerracrewError) -> str:
    """What went wrong, and below it what to do about it."""
    red = click.style("error:", fg="red", bold=True)
    hint = error.details.get("hint")
    return f"{red} {plain(error.message)}" + (f"\n{click.style('hint:', bold=True)} {plain(str(hint))}" if hint else "")
