"""`terracrew registry`: publishes modules for the configurations of others, and shows what is published."""

from pathlib import Path
from urllib.parse import urlsplit

import click
import msgspec

from terracrew.api.registry import (
    FolderDocumentation,
    NewPublishedModule,
    NewPublishedVersion,
    PublishedModuleChange,
    PublishedModuleDetails,
    PublishedModuleUse,
    PublishedModuleView,
    PublishedVersionChange,
    PublishedVersionDetails,
    PublishedVersionView,
)
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.arguments.source import upload
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import NotFound
from terracrew.wording import registry_words as words
from terracrew.wording.escapes import plain

_published = click.argument("published", metavar="NAME", shell_complete=name_completion.published_modules)
_version = click.argument("version", metavar="VERSION")


@click.group("registry", cls=LazyGroup)
def registry() -> None:
    """Publish modules that the configurations of others use by name and version.

    NAME is the path of a published module (`group/name/system`) or its id.
    """


@registry.command("list", epilog=output.examples("terracrew registry list", "terracrew registry list --search vpc"))
@click.option("--search", metavar="WORDS", default="", help="Only those whose path or description has these words.")
@click.option(
    "--group",
    metavar="GROUP",
    default="",
    shell_complete=name_completion.groups,
    help="Only those of this group and below.",
)
@output.with_target
def list_published(target: Target, search: str, group: str) -> output.CommandResult:
    """List the published modules that you may use."""
    items = list(target.api().list("/published-modules", PublishedModuleView, search=search, group=group))
    rows = [
        (each.path, each.latest or "none", words.READERS[each.readers], each.url or "uploads", each.description)
        for each in items
    ]
    notes = [f"{each.path}: {each.problem}" for each in items if each.problem]
    empty = "no published modules: `terracrew registry create GROUP NAME SYSTEM`"
    columns = ("NAME", "LATEST", "FOR", "VERSIONS FROM", "DESCRIPTION")
    return output.listing(items, columns, rows, empty=empty, notes=notes)


@registry.command(
    "create",
    epilog=output.examples(
        "terracrew registry create platform vpc aws --description 'Three zones'",
        "terracrew registry create platform vpc aws --readers organization",
    ),
)
@click.argument("group", shell_complete=name_completion.groups)
@click.argument("name", metavar="SHORT_NAME")
@click.argument("system")
@settings.request_options(NewPublishedModule, "new", own=("group", "name", "system"), defaults=NewPublishedModule)
@output.with_target
def create(target: Target, new: NewPublishedModule) -> output.CommandResult:
    """Create a published module of GROUP. SYSTEM is what it is mainly for, such as aws or kubernetes."""
    new = msgspec.structs.replace(new, group=new.group.strip("/"))
    made = target.api().post("/published-modules", new, PublishedModuleView)
    following = "show" if made.url else "publish DIR"
    version = "" if made.url else " 1.0.0"
    return output.message(
        made,
        f"created the published module {made.path}",
        f"Next: `terracrew registry {following} {made.path}{version}`",
    )


@registry.command("show", epilog=output.examples("terracrew registry show platform/vpc/aws"))
@_published
@output.with_target
def show(target: Target, published: str) -> output.CommandResult:
    """Show a published module with its versions, and what a configuration writes to use it."""
    found = target.api().get(_api_path(published), PublishedModuleDetails)
    host = urlsplit(target.resolve().url).netloc

    def print_all() -> None:
        output.facts(
            [
                ("name", found.path),
                ("id", found.id),
                ("description", found.description),
                ("latest", found.latest or "none"),
                ("for", words.READERS[found.readers]),
                ("versions from", found.url or "uploads"),
                ("folder", found.folder),
                ("tags begin with", found.tag_prefix),
                ("looked", output.age(found.looked_at) if found.url else ""),
                ("problem", found.problem),
                ("made by", found.created_by_name),
            ]
        )
        rows = [
            (each.version, words.condition(each), each.sha256[:12], output.age(each.created_at), each.created_by_name)
            for each in found.versions
        ]
        output.table(("VERSION", "STATE", "SHA-256", "PUBLISHED", "BY"), rows, empty="no version is published yet")
        for each in found.refused_tags:
            output.note(f"The tag {each.tag} is no version: {each.reason}")
        usable = found.latest or next((each.version for each in found.versions if not each.is_withdrawn), "")
        click.echo(words.usage(host, found.address, usable))

    return output.CommandResult(found, print_all)


@registry.command("docs", epilog=output.examples("terracrew registry docs platform/vpc/aws 1.2.0"))
@_published
@click.argument("version", metavar="VERSION", required=False, default="")
@output.with_target
def docs(target: Target, published: str, version: str) -> output.CommandResult:
    """Show the inputs, outputs, requirements, submodules and examples of VERSION; without it, of the latest one."""
    api, path = target.api(), _api_path(published)
    if not version:
        version = api.get(path, PublishedModuleDetails).latest
        if not version:
            raise NotFound(f"{published} has no version that is released: give one")
    found = api.get(f"{path}/versions/{segment(version)}", PublishedVersionDetails)

    def print_all() -> None:
        output.facts([("version", found.version), ("sha-256", found.sha256), ("state", words.condition(found))])
        described = found.documentation
        if described is None:
            return
        _print_folder(described.main)
        for folder in described.submodules:
            click.echo(f"\nsubmodule {plain(folder.folder)}")
            _print_folder(folder)
        for example in described.examples:
            click.echo(f"\nexample {plain(example.name)}\n{plain(example.main)}")

    return output.CommandResult(found, print_all)


@registry.command(
    "uses",
    epilog=output.examples(
        "terracrew registry uses platform/vpc/aws", "terracrew registry uses platform/vpc/aws --version 1.2.0"
    ),
)
@_published
@click.option("--version", metavar="VERSION", default="", help="Only those that have fetched this version.")
@output.with_target
def list_uses(target: Target, published: str, version: str) -> output.CommandResult:
    """List the modules whose jobs have fetched a version, those that did last first.

    Modules that you may not see are left out. An engine fetches again only what it has not kept from an earlier job.
    """
    items = list(target.api().list(f"{_api_path(published)}/uses", PublishedModuleUse, version=version or None))
    rows = [(each.module, words.used_version(each), output.age(each.fetched_at), each.job_id) for each in items]
    empty = "no job of a module that you may see has fetched a version"
    return output.listing(items, ("MODULE", "VERSION", "FETCHED", "JOB"), rows, empty=empty)


@registry.command("update", epilog=output.examples("terracrew registry update platform/vpc/aws --readers organization"))
@_published
@settings.request_options(PublishedModuleChange)
@output.with_target
def update(target: Target, published: str, change: PublishedModuleChange) -> output.CommandResult:
    """Change a published module. Versions that exist stay as they are."""
    settings.read_changes(change)
    made = target.api().patch(_api_path(published), change, PublishedModuleView)
    return output.message(made, f"changed the published module {made.path}")


@registry.command("look", epilog=output.examples("terracrew registry look platform/vpc/aws"))
@_published
@output.with_target
def look(target: Target, published: str) -> output.CommandResult:
    """Look at the tags of the repository now, and not within a minute."""
    made = target.api().post(f"{_api_path(published)}/look", {}, PublishedModuleView)
    text = f"the tags of {made.path} are looked at"
    return output.message(made, text, f"Next: `terracrew registry show {made.path}`")


@registry.command("publish", epilog=output.examples("terracrew registry publish ./vpc platform/vpc/aws 1.2.0"))
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_published
@_version
@output.with_target
def publish(target: Target, folder: Path, published: str, version: str) -> output.CommandResult:
    """Publish the files of DIR as VERSION, which never changes afterwards.

    The same files can be published again as the same version. Left out are .git, state files and what .terracrewignore lists.
    """
    api = target.api()
    path = _api_path(published)
    api.get(path, PublishedModuleDetails)  # before a large folder is packed for nothing
    new = NewPublishedVersion(version=version, archive_id=upload(api, folder))
    made = api.post(f"{path}/versions", new, PublishedVersionView)
    return output.message(made, f"published {published} {made.version} (SHA-256 {made.sha256[:12]})")


@registry.command(
    "withdraw", epilog=output.examples("terracrew registry withdraw platform/vpc/aws 1.2.0 --reason slow")
)
@_published
@_version
@click.option("--reason", metavar="TEXT", default="", help="Why, for those who use it.")
@output.with_target
def withdraw(target: Target, published: str, version: str, reason: str) -> output.CommandResult:
    """Withdraw VERSION: no engine gets it any more, and its number stays taken."""
    made = _change(target, published, version, PublishedVersionChange(is_withdrawn=True, reason=reason))
    return output.message(made, f"withdrew {published} {made.version}")


@registry.command("restore", epilog=output.examples("terracrew registry restore platform/vpc/aws 1.2.0"))
@_published
@_version
@output.with_target
def restore(target: Target, published: str, version: str) -> output.CommandResult:
    """Give a withdrawn VERSION back to engines."""
    made = _change(target, published, version, PublishedVersionChange(is_withdrawn=False))
    return output.message(made, f"gave back {published} {made.version}")


@registry.command("delete", epilog=output.examples("terracrew registry delete platform/vpc/aws"))
@_published
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, published: str, yes: bool) -> output.CommandResult:
    """Delete a published module whose versions are all withdrawn."""
    if not yes:
        output.ask(f"The published module {published} is deleted with all of its versions.", "Not deleted.")
    target.api().delete(_api_path(published))
    return output.message({"deleted": published}, f"deleted the published module {published}")


def _print_folder(folder: FolderDocumentation) -> None:
    inputs = [
        (each.name, " ".join(each.type.split()), words.default_of(each), each.description) for each in folder.inputs
    ]
    output.table(("INPUT", "TYPE", "DEFAULT", "DESCRIPTION"), inputs, empty="no inputs")
    outputs = [(each.name, each.description) for each in folder.outputs]
    output.table(("OUTPUT", "DESCRIPTION"), outputs, empty="no outputs")
    needs = [(each.name, each.source, each.version) for each in folder.providers]
    needs += [("engine", "", folder.engine_version)] if folder.engine_version else []
    output.table(("PROVIDER", "SOURCE", "VERSION"), needs, empty="no providers")
    for problem in folder.problems:
        output.note(f"Not read: {problem}")


def _change(target: Target, published: str, version: str, change: PublishedVersionChange) -> PublishedVersionView:
    return target.api().patch(f"{_api_path(published)}/versions/{segment(version)}", change, PublishedVersionView)


def _api_path(published: str) -> str:
    return f"/published-modules/{segment(published)}"
