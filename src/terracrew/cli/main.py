"""`terracrew`: the entry point, the list of commands, and the place where an error becomes a message and an exit code."""

import sys
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from terracrew import __version__
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import streams
from terracrew.errors import TerracrewError
from terracrew.wording.escapes import plain

INTERRUPTED_EXIT_CODE = 130

COMMANDS = {
    "up": ("terracrew.cli.commands.up:up", "Start everything on this machine: server, SQLite, a runner."),
    "demo": ("terracrew.demo.command:demo", "Start everything and run the sample modules."),
    "login": ("terracrew.cli.commands.access.login:login", "Log in to a server in a browser, or with a token."),
    "logout": ("terracrew.cli.commands.access.login:logout", "Log out of a server, and revoke the token."),
    "whoami": ("terracrew.cli.commands.config:whoami", "Show the user and the server of this command line."),
    "overview": ("terracrew.cli.commands.overview:overview", "Show what needs you, and figures of jobs and runners."),
    "module": ("terracrew.cli.commands.module.module:module", "Create, change and inspect modules."),
    "adopt": ("terracrew.cli.commands.adopt:adopt", "Make a module of a configuration that exists, with its state."),
    "import": (
        "terracrew.cli.commands.importing.commands:import_",
        "Make modules of what other products and folders have: workspaces, projects, states.",
    ),
    "group": ("terracrew.cli.commands.group:group", "Manage the tree of groups that holds modules and runners."),
    "input": ("terracrew.cli.commands.input:inputs", "Set variables, environment and secrets of groups and modules."),
    "step": ("terracrew.cli.commands.step:step", "Add hooks and flags to the steps of jobs."),
    "job": ("terracrew.cli.commands.job.job:job", "Run jobs, follow their logs, decide about their plans."),
    "pull-request": (
        "terracrew.cli.commands.pull_request:pull_request",
        "Show pull requests with their plans; plan again, apply and cancel.",
    ),
    "schedule": ("terracrew.cli.commands.schedule:schedule", "Start jobs and drift checks at chosen times."),
    "policy": ("terracrew.cli.commands.policy:policy", "Check plans by policies before they are applied."),
    "discovery": (
        "terracrew.cli.commands.discovery:discovery",
        "Make modules from the folders of repositories.",
    ),
    "registry": (
        "terracrew.cli.commands.registry:registry",
        "Publish modules for the configurations of others.",
    ),
    "drift": (
        "terracrew.cli.commands.drift:drift",
        "Find what was changed outside of the engine, and mute or undo it.",
    ),
    "state": (
        "terracrew.cli.commands.state:state",
        "List, print, import and restore states; adopt or discard quarantined ones.",
    ),
    "runner": ("terracrew.cli.commands.runner.runner:runner", "Start, register and manage runners."),
    "cloud-identity": (
        "terracrew.cli.commands.cloud_identity:cloud_identity",
        "Manage the ways into cloud accounts for runners.",
    ),
    "notification": (
        "terracrew.cli.commands.notification:notification",
        "Manage the channels that tell people of events: webhook, Slack, Teams, e-mail.",
    ),
    "forge": (
        "terracrew.cli.commands.forge:forge",
        "Manage connections to GitHub, GitLab, Gitea, Forgejo and plain git.",
    ),
    "fleet-job": (
        "terracrew.cli.commands.fleet_job:fleet_job",
        "Show and cancel jobs that deploy and remove cloud-hosted runners.",
    ),
    "release": (
        "terracrew.cli.commands.release.release:release",
        "Publish, show and withdraw releases of Terracrew.",
    ),
    "organization": (
        "terracrew.cli.commands.access.organization:organization",
        "Create and manage organizations.",
    ),
    "token": ("terracrew.cli.commands.access.token:token", "Manage API tokens for scripts."),
    "user": ("terracrew.cli.commands.access.user:user", "Manage users."),
    "role": ("terracrew.cli.commands.access.role:role", "Grant and revoke roles in groups and modules."),
    "sso": (
        "terracrew.cli.commands.access.sso:sso",
        "Manage single sign-on: providers, and the rules that turn groups into roles.",
    ),
    "service-account": (
        "terracrew.cli.commands.access.service_account:service_account",
        "Manage accounts for programs, and their secrets.",
    ),
    "provisioning": (
        "terracrew.cli.commands.access.provisioning:provisioning",
        "Let an identity provider manage people and groups by SCIM.",
    ),
    "audit": ("terracrew.cli.commands.access.audit:audit", "List who changed what, and when."),
    "events": ("terracrew.cli.commands.api:events", "Print changes on the server as they happen."),
    "api": ("terracrew.cli.commands.api:api", "Send one request to the API."),
    "engine": ("terracrew.cli.commands.engine:engine", "Find and install OpenTofu, Terraform and Pulumi."),
    "server": ("terracrew.cli.commands.server.server:server", "Start the server without a runner; back it up."),
    "config": ("terracrew.cli.commands.config:config", "Show and set which server this command line uses."),
    "completion": ("terracrew.cli.commands.config:completion", "Print the completion script for a shell."),
}


def complete_organization(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Complete the name of an organization. The module that asks the server is imported only then."""
    from terracrew.cli.arguments import name_completion

    return name_completion.organizations(context, parameter, typed)


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="terracrew", message="%(prog)s %(version)s")
@click.option("--url", metavar="URL", help="The server's address; overrides TERRACREW_URL and the profile.")
@click.option("--profile", metavar="NAME", help="A profile of the configuration file; see `terracrew config`.")
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that holds the token; overrides TERRACREW_TOKEN and the profile.",
)
@click.option(
    "--organization",
    metavar="NAME",
    shell_complete=complete_organization,
    help="The organization to work in; overrides TERRACREW_ORGANIZATION and the profile [your own].",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(
    ctx: click.Context,
    url: str | None,
    profile: str | None,
    token_file: Path | None,
    organization: str | None,
    debug: bool,
) -> None:
    """A control plane and a crew of runners for Terraform, OpenTofu and Pulumi.

    `terracrew demo` shows it at work; `terracrew up` starts a server and a runner on this machine.
    """
    ctx.obj = Target(url, profile, token_file, organization)
    del debug  # `run` looks for it, since an error may come before the options are read


def main() -> None:
    """Run the command line of this process and exit with its exit code."""
    streams.guard()
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; docs/cli.md lists the codes."""
    try:
        result = cli.main(arguments, prog_name="terracrew", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        click.echo(_words(_sentence_part(error.format_message()), _help_of(error)), err=True)
        return error.exit_code
    except click.Abort:
        return INTERRUPTED_EXIT_CODE
    except TerracrewError as error:
        if "--debug" in arguments:
            raise
        click.echo(message(error), err=True)
        return error.exit_code


def message(error: TerracrewError) -> str:
    """Return what went wrong and, on the next line, the hint."""
    from terracrew.cli.printing import output  # imported here to keep `--help` fast

    return _words(error.message, output.hint_of(error))


def _words(text: str, hint: str | None) -> str:
    from terracrew.cli.printing import output  # imported here to keep `--help` fast

    red = click.style("error:", fg="red", bold=True)
    found = f"{red} {output.broken(plain(text), indent=len('error: '))}"
    return found + (f"\n{click.style('hint:', bold=True)} {plain(hint)}" if hint else "")


def _sentence_part(text: str) -> str:
    """Return the words of click as those of all other errors: they follow a colon, and do not end like a sentence."""
    return text[:1].lower() + text[1:].removesuffix(".")


def _help_of(error: click.ClickException) -> str | None:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"see `{context.command_path} --help`" if context else None
