"""`terracrew import`: the commands, one for each source."""

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.options import combine
from terracrew.cli.commands.importing.model import ImportedEngine
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output, progress
from terracrew.errors import Invalid

Command = TypeVar("Command", bound=Callable[..., Any])
import_options = combine(
    click.option("--plan", "only_plan", is_flag=True, help="Only show what would be made."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)


def _into(words: str, default: str = "") -> Callable[[Command], Command]:
    """Return the option that names the group for what is made."""
    return click.option("--into", default=default, metavar="GROUP", shell_complete=name_completion.groups, help=words)


@click.group("import", cls=LazyGroup)
def import_() -> None:
    """Make modules of what other products and folders have: workspaces, projects, states.

    Each command shows first what it would make, and what cannot be taken over. It never changes a module that is here and was not
    made by the same import, and a second run makes nothing twice. The source stays as it is.
    """


@import_.command(
    "hcp",
    epilog=output.examples(
        "terraform login",
        "terracrew import hcp --organization acme --plan",
        "terracrew import hcp --organization acme --workspace 'shop-*' --into shop",
    ),
)
@click.option(
    "--organization", "source_organization", required=True, metavar="NAME", help="The organization at the source."
)
@click.option(
    "--url", "source_url", default="https://app.terraform.io", show_default=True, metavar="URL", help="Its address."
)
@click.option(
    "--workspace", "patterns", multiple=True, metavar="PATTERN", help="Only these, such as 'shop-*'. Can be repeated."
)
@_into(
    "The group for everything; `/` is the organization. By default one with the name of the organization at the source."
)
@click.option(
    "--engine",
    type=click.Choice(["terraform", "tofu"]),
    default="terraform",
    show_default=True,
    help="The engine that runs the modules.",
)
@click.option("--token-stdin", is_flag=True, help="Read the token for the source from standard input.")
@click.option("--lock-source", is_flag=True, help="Lock each workspace at the source before its state is read.")
@import_options
@output.with_target
def import_hcp(
    target: Target,
    source_organization: str,
    source_url: str,
    patterns: tuple[str, ...],
    into: str,
    engine: ImportedEngine,
    token_stdin: bool,
    lock_source: bool,
    only_plan: bool,
    yes: bool,
) -> output.CommandResult:
    """Make modules of the workspaces of HCP Terraform, Terraform Enterprise, OTF or another Terracrew.

    It takes over settings, variables, variable sets, tags, projects and the current states. Values of sensitive variables are not
    given out: it lists them, and you set them by hand. The token is that of `terraform login`, of TF_TOKEN_… (such as
    TF_TOKEN_app_terraform_io), or of standard input. Nothing is changed at the source, unless you ask for --lock-source.
    """
    from terracrew.cli.commands.importing import hcp, hcp_reading, running, spelling, tfe_client, tfe_tokens
    from terracrew.client import address

    if token_stdin and not (yes or only_plan):
        raise Invalid("with --token-stdin, nobody can be asked: add --plan to look first, or --yes")
    api = target.api()
    given = sys.stdin.readline() if token_stdin else None
    token = tfe_tokens.find(urlsplit(address.checked(source_url)).netloc.lower(), given)
    into = spelling.group(into, source_organization)
    with progress.of_bytes() as show:
        client = tfe_client.TfeClient(source_url, token, on_wait=lambda words: show(words, 0, 0))
        client.discover()
        found = hcp_reading.organization(client, source_organization, patterns, lambda words: show(words, 0, 0))
    ids = {each.attributes.name: each.id for each in found.workspaces}
    locking = functools.partial(hcp_reading.lock, client, ids) if lock_source else None
    return running.run(
        api,
        hcp.plan(found, into, engine),
        functools.partial(hcp_reading.read_state, client),
        only_plan=only_plan,
        yes=yes,
        lock_source=locking,
    )


@import_.command(
    "atlantis",
    epilog=output.examples(
        "terracrew import atlantis ./atlantis.yaml --into platform --plan",
        "terracrew import atlantis ./atlantis.yaml --server-config repos.yaml",
    ),
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--repository", metavar="URL", default="", help="The repository. By default the remote `origin` of the checkout."
)
@click.option("--branch", metavar="NAME", default="", help="The branch of the modules. By default the default branch.")
@click.option(
    "--server-config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The repos.yaml of the server of Atlantis: its workflows and what it decides for this repository.",
)
@_into("The group for the modules; `/` is the organization. By default one with the name of the repository.")
@click.option(
    "--own-backend/--no-own-backend",
    default=True,
    help="Whether states stay in the backends that the sources configure (the default).",
)
@import_options
@output.with_target
def import_atlantis(
    target: Target,
    file: Path,
    repository: str,
    branch: str,
    server_config: Path | None,
    into: str,
    own_backend: bool,
    only_plan: bool,
    yes: bool,
) -> output.CommandResult:
    """Make modules of the projects of FILE, an atlantis.yaml.

    It takes over folders, workspaces, versions, patterns of files, approvals, and custom workflows as hooks, flags and environment
    variables. What has no counterpart is named.
    """
    from terracrew.cli.commands.importing import atlantis, atlantis_files, folders, running, spelling, yaml_files
    from terracrew.source_rules import git

    given, unknown = yaml_files.read(file, atlantis_files.file)
    url = repository or folders.checkout_of(file.resolve().parent).url
    if problem := git.url_problem(url):
        raise Invalid(f"--repository: {problem}")
    there = atlantis.AtlantisRepository(url, branch)
    server = atlantis_files.ServerRules()
    if server_config is not None:
        server = yaml_files.read(server_config, lambda found: atlantis_files.server_rules(found, there.id))
    plan = atlantis.plan(
        given, there, server, spelling.group(into, there.name), has_own_backend=own_backend, unknown=unknown
    )
    return running.run(target.api(), plan, running.no_state, only_plan=only_plan, yes=yes)


@import_.command(
    "state",
    epilog=output.examples(
        "terracrew import state ./live --into platform --plan",
        "terracrew import state ./live --into platform --source archive",
    ),
)
@click.argument(
    "paths", metavar="DIRECTORY|FILE...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@_into("The group for the modules. `/`, the default, is the organization.", default="/")
@click.option(
    "--source",
    "kind",
    type=click.Choice(["git", "archive", "local"]),
    default="git",
    help="Where modules get their files from: the remote of the checkout (the default), an upload, or the folder on a runner of "
    "this machine.",
)
@click.option("--engine", type=click.Choice(["tofu", "terraform"]), help="By default the one that the lock file names.")
@import_options
@output.with_target
def import_states(
    target: Target,
    paths: tuple[Path, ...],
    into: str,
    kind: str,
    engine: str | None,
    only_plan: bool,
    yes: bool,
) -> output.CommandResult:
    """Make a module of each state in and below DIRECTORY, with the configuration beside it.

    It finds terraform.tfstate, other *.tfstate files, and those of workspaces in terraform.tfstate.d. A module has the path of its
    folder below DIRECTORY.
    """
    from terracrew.cli.commands.importing import folders, running, spelling

    top = folders.common_folder(paths)
    found = folders.find(paths)
    plan = folders.plan(found, top, spelling.group(into, ""), folders.kind_of(kind), engine)
    return running.run(target.api(), plan, folders.read_state, only_plan=only_plan, yes=yes)
