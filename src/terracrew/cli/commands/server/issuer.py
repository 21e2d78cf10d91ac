"""`terracrew server issuer`: shows the issuer of the tokens for clouds, and writes its documents for another address."""

from datetime import datetime
from pathlib import Path

import click
import msgspec

from terracrew.api.operations import IssuerView
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.errors import Conflict
from terracrew.system import durable

DISCOVERY = ".well-known/openid-configuration"
KEYS = ".well-known/jwks.json"


@click.group("issuer")
def issuer() -> None:
    """The issuer of the tokens that this server shows to clouds.

    Clouds fetch its keys. If they cannot reach this server, publish the two files of `export` at an address that they
    reach, and name that address with the setting `issuer_url`.
    """


@issuer.command("show", epilog=output.examples("terracrew server issuer show"))
@output.with_target
def show(target: Target) -> output.CommandResult:
    """Show the issuer, its keys, and whether its files are current."""
    found = target.api().get("/issuer", IssuerView)

    def show() -> None:
        output.facts(
            (
                ("issuer", found.issuer),
                ("published by", "somebody, as files" if found.is_separate else "this server"),
                ("signs now", found.signing_key),
                ("signs next", found.next_key),
                ("from", _day(found.next_signs_from)),
                ("looked", output.moment(found.looked_at)),
            )
        )
        if found.problem:
            output.note(found.problem)

    return output.CommandResult(found, show)


@issuer.command(
    "export",
    epilog=output.examples(
        "terracrew server issuer export ./issuer",
        "aws s3 cp --recursive ./issuer s3://BUCKET --content-type application/json",
    ),
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@output.with_target
def export(target: Target, directory: Path) -> output.CommandResult:
    """Write the two files that clouds read if they cannot reach it.

    Upload the content of DIRECTORY, so that both files are below the address that the setting `issuer_url` names.
    They hold public keys only. The server replaces its key every month, and says so when both files are needed again.
    """
    found = target.api().get("/issuer", IssuerView)
    if not found.is_separate:
        raise Conflict(
            f"the issuer is this server itself, {found.issuer}: files elsewhere would name this address, and not their own",
            hint="set `issuer_url` (TERRACREW_SERVER_ISSUER_URL) to the address of the files, and restart the server",
        )
    written = [_write(directory / DISCOVERY, found.configuration), _write(directory / KEYS, found.jwks)]
    notes = [f"Upload both as application/json, so that {found.issuer}/{DISCOVERY} is the first one."]
    if found.next_signs_from:
        notes.append(
            f"They are enough until {_day(found.export_by)}. From {_day(found.next_signs_from)} on, another key "
            "follows: export and upload again between these days. Until then the server signs with a key that the files have."
        )
    files = [str(path) for path in written]
    text = "\n".join(f"wrote {path}" for path in files)
    return output.message(msgspec.to_builtins(found) | {"files": files}, text, *notes)


def _write(path: Path, document: object) -> Path:
    durable.make_directory(path.parent, 0o755)
    durable.write(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    path.chmod(0o644)
    return path


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else ""
