"""`terracrew release`: lists, shows and withdraws releases, prints their notes, and downloads their files."""

import io
import sys
from pathlib import Path

import click

from terracrew.api.releases import ReleaseKey, ReleaseNotes, ReleaseView, Withdrawal
from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.access.token import release_token
from terracrew.cli.commands.release.publish import publish
from terracrew.cli.commands.release.rollout import rollout
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.wording.escapes import plain


@click.command(
    "notes",
    epilog=output.examples(
        "terracrew release notes --since 0.1.0",
        "terracrew release notes --since 0.1.0-rc.1 --until 0.1.0-rc.3",
    ),
)
@click.option(
    "--since",
    metavar="VERSION",
    shell_complete=name_completion.releases,
    help="Only versions higher than this one, for example the version of a runner.",
)
@click.option(
    "--until",
    metavar="VERSION",
    shell_complete=name_completion.releases,
    help="Only versions up to this one, included.",
)
@output.with_target
def show_notes(target: Target, since: str | None, until: str | None) -> output.CommandResult:
    """Print the notes of every version between two, the highest first.

    A breaking version is marked, with what to do before an update to it. A withdrawn one is struck through, with the reason.
    """
    items = list(target.api().list("/releases/notes", ReleaseNotes, since=since, until=until))

    def show() -> None:
        if not items:
            click.echo("no releases in this range: `terracrew release list` lists all of them", err=True)
        for index, each in enumerate(items):
            if index:
                click.echo()
            _print(each)

    return output.CommandResult(items, show)


def _print(found: ReleaseNotes) -> None:
    is_withdrawn = bool(found.withdrawn_at)
    version = click.style(output.text(found.version), bold=True, strikethrough=is_withdrawn)
    marks = ["withdrawn"] if is_withdrawn else []
    marks += ["BREAKING"] if found.is_breaking else []
    suffix = click.style("".join(f"  {mark}" for mark in marks), fg="red" if found.is_breaking else "yellow")
    click.echo(f"{version}  {click.style(f'{found.released_at:%Y-%m-%d}', dim=True)}{suffix}")
    if is_withdrawn:
        click.echo(f"withdrawn: {_printable(found.withdrawn_reason)}")
    if found.is_breaking:
        click.echo(f"before an update: {_printable(found.breaking_words)}")
    if found.link:
        click.echo(output.text(found.link))
    click.echo()
    _print_markdown(_printable(found.notes))


def _printable(text: str) -> str:
    """Return a text of several lines that cannot move the cursor or change colours."""
    return plain(text).replace("\r\n", "\n").replace("\r", "\n")


def _print_markdown(text: str) -> None:
    """Print Markdown with its headings and lists drawn. A pipe gets the text as it was written."""
    if not sys.stdout.isatty():
        return click.echo(text)
    from rich.console import Console
    from rich.markdown import Markdown

    # Links are printed with their addresses, because a terminal that follows them shows no address before.
    return Console(highlight=False).print(Markdown(text, hyperlinks=False))


@click.group(cls=LazyGroup)
def release() -> None:
    """Publish, show and withdraw releases of Terracrew, which the runners of a server are updated to.

    VERSION is a version such as 0.1.0-rc.2, or `latest`, which is the one that the server's runners should have.
    """


release.add_command(publish)
release.add_command(show_notes)
release.add_command(release_token)
release.add_command(rollout)


@release.command("list")
@output.with_target
def list_releases(target: Target) -> output.CommandResult:
    """List all releases, the highest version first."""
    items = list(target.api().list("/releases", ReleaseView))
    rows = [
        (
            each.version,
            _status(each),
            f"{each.released_at:%Y-%m-%d}",
            "yes" if each.is_breaking else "",
            len(each.artifacts),
            each.published_by_name,
        )
        for each in items
    ]
    empty = "no releases: `terracrew release publish VERSION --notes CHANGELOG.md`"
    return output.listing(
        items, ("VERSION", "STATUS", "RELEASED", "BREAKING", "ARTIFACTS", "PUBLISHED BY"), rows, empty=empty
    )


@release.command("show")
@click.argument("version", shell_complete=name_completion.releases)
@output.with_target
def show(target: Target, version: str) -> output.CommandResult:
    """Show a release and its artifacts. `terracrew release notes` prints what is written about it."""
    found = target.api().get(f"/releases/{segment(version)}", ReleaseView)

    def show() -> None:
        output.facts(
            [
                ("version", found.version),
                ("status", _status(found)),
                ("withdrawn", _withdrawn(found)),
                ("released", f"{found.released_at:%Y-%m-%d}"),
                ("published", f"{output.age(found.published_at)} by {output.text(found.published_by_name)}"),
                ("commit", found.commit_id),
                ("link", found.link),
                ("breaking", "yes" if found.is_breaking else ""),
                ("before an update", found.breaking_words),
                ("least server version", found.min_server_version),
            ]
        )
        rows = [
            (
                each.name,
                each.kind,
                f"{each.size_bytes:,}" if each.size_bytes else "",
                each.reference or each.sha256,
            )
            for each in found.artifacts
        ]
        click.echo()
        output.table(("ARTIFACT", "KIND", "BYTES", "SHA-256 OR REFERENCE"), rows, empty="no artifacts", wide=True)

    return output.CommandResult(found, show)


@release.command("key")
@output.with_target
def show_key(target: Target) -> output.CommandResult:
    """Print the public key with which the server checks releases, as `minisign -P` takes it."""
    found = target.api().get("/releases/key", ReleaseKey)

    def show() -> None:
        if not found.key:
            raise NotFound(
                "this server has no key of releases", hint="its setting is `release_key`: see docs/releases.md"
            )
        click.echo(found.key)

    return output.CommandResult(found, show)


@release.command("download", epilog=output.examples("terracrew release download latest SHA256SUMS"))
@click.argument("version", shell_complete=name_completion.releases)
@click.argument("artifact")
@click.option(
    "--output",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write it [the name of the artifact, in the current folder].",
)
@output.with_target
def download(target: Target, version: str, artifact: str, file: Path | None) -> output.CommandResult:
    """Download the file ARTIFACT of a release, and its signature beside it. A file that exists is not replaced.

    The hash is compared with the one of the release. `minisign -V` verifies the signature.
    """
    import hashlib

    from terracrew.releases import release_files

    api = target.api()
    found = api.get(f"/releases/{segment(version)}", ReleaseView)
    wanted = next((each for each in found.artifacts if each.name == artifact), None)
    if wanted is None:
        names = ", ".join(each.name for each in found.artifacts) or "none"
        raise Invalid(f"the release {found.version} has no artifact {artifact!r}", hint=f"it has: {names}")
    place = file or Path(release_files.checked_name(artifact))
    signature = place.with_name(f"{place.name}{release_files.SIGNATURE_SUFFIX}")
    for each in (place, signature):
        if each.exists():
            raise Invalid(f"{each} exists already: remove it, or choose another name with --output")
    content = io.BytesIO()
    api.download(f"/releases/{segment(found.version)}/artifacts/{segment(artifact)}", content)
    digest = hashlib.sha256(content.getbuffer()).hexdigest()
    if digest != wanted.sha256:
        raise Invalid(f"{artifact} has another hash than the release says: it has {digest}, not {wanted.sha256}")
    place.write_bytes(content.getbuffer())
    signature.write_text(wanted.signature)
    return output.message(
        {"file": str(place), "signature": str(signature), "sha256": digest},
        f"{place} has the hash that the release says; its signature is {signature}",
    )


@release.command(
    "withdraw", epilog=output.examples("terracrew release withdraw 0.1.0-rc.2 --reason 'it does not start'")
)
@click.argument("version", shell_complete=name_completion.releases)
@click.option("--reason", required=True, metavar="TEXT", help="Why, for people whose runners have this version.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask.")
@output.with_target
def withdraw(target: Target, version: str, reason: str, is_confirmed: bool) -> output.CommandResult:
    """Withdraw a release: it is no longer the latest one, and runners do not get its files any more.

    Runners that have it keep it. It cannot be undone, and the version cannot be published again.
    """
    if not is_confirmed:
        output.ask(f"Withdraw the release {version} for good?", "nothing was withdrawn")
    done = target.api().post(f"/releases/{segment(version)}/withdraw", Withdrawal(reason), ReleaseView)
    return output.message(done, f"withdrew {done.version}")


def _status(found: ReleaseView) -> str:
    return "withdrawn" if found.withdrawn_at else "latest" if found.is_latest else ""


def _withdrawn(found: ReleaseView) -> str:
    if not found.withdrawn_at:
        return ""
    return f"{output.age(found.withdrawn_at)} by {found.withdrawn_by_name}: {found.withdrawn_reason}"
