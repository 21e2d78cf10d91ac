"""`terracrew input`: what the jobs of modules are given, at any place of the tree."""

import sys
from typing import TextIO, get_args
from urllib.parse import urlencode

import click
import msgspec

from terracrew.api.inputs import Dependency, InputView, NewInput, OutputReference, UsedInput
from terracrew.api.inputs import Target as InputTarget
from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.protocol.spec import Definition
from terracrew.wording import module_words, typed_values

HIDDEN = "•••"
_NOUNS = {"variable": "variable", "environment": "environment variable", "file": "file"}
_environment = click.option("--env", "is_environment", is_flag=True, help="An environment variable, not a variable.")
_file = click.option("--file", "is_file", is_flag=True, help="An extra file beside the source; NAME is its path.")


@click.group("input", cls=LazyGroup)
def inputs() -> None:
    """Set what the jobs of modules are given: variables, environment variables, extra files and secrets.

    PLACE is the path of a group or a module, or `/` for the organization. An input applies to all modules at and below its
    place. If several places have one of the same name, the nearest one applies.
    """


@inputs.command("list")
@click.argument("place", default="/", shell_complete=name_completion.places)
@click.option("--own", is_flag=True, help="Only those that are set at PLACE itself.")
@output.with_target
def list_inputs(target: Target, place: str, own: bool) -> output.CommandResult:
    """List the inputs that apply to PLACE, with where each is set, by whom and when."""
    items = list(target.api().list("/inputs", InputView, place=place, inherited="false" if own else None))
    rows = [(name_of(each), shown(each), origin(each), who(each)) for each in items]
    empty = f"no inputs: `terracrew input set {place} NAME VALUE`"
    return output.listing(items, ("NAME", "VALUE", "FROM", "SET"), rows, empty=empty)


@inputs.command(
    "set",
    epilog=output.examples(
        "terracrew input set platform region eu-1",
        'terracrew input set platform/network zones \'["a", "b"]\'',
        "terracrew input set platform AWS_REGION eu-central-1 --env",
        "terracrew input set platform/database password --secret",
        "terracrew input set platform/app vpc_id --output platform/network:vpc_id",
    ),
)
@click.argument("place", shell_complete=name_completion.places)
@click.argument("name")
@click.argument("value", required=False)
@_environment
@_file
@click.option("--from", "source", type=click.File(encoding="utf-8"), help="Read the value from this file.")
@click.option("--overwrite", is_flag=True, help="With --file: it may replace a file of the source.")
@click.option(
    "--secret",
    "is_secret",
    is_flag=True,
    help="A secret, which nobody can read back. It is asked for, or read from a pipe.",
)
@click.option(
    "--output",
    "reference",
    metavar="MODULE:OUTPUT",
    shell_complete=name_completion.modules,
    help="An output of another module; jobs wait until it exists.",
)
@click.option(
    "--about",
    "definition",
    type=click.Choice(get_args(Definition)),
    metavar="FACT",
    help=f"Something about the job: {', '.join(get_args(Definition))}.",
)
@click.option("--text", "is_text", is_flag=True, help="VALUE is a text, even if it is valid JSON (`5`, `true`).")
@output.with_target
def set_input(
    target: Target,
    place: str,
    name: str,
    value: str | None,
    is_environment: bool,
    is_file: bool,
    source: TextIO | None,
    overwrite: bool,
    is_secret: bool,
    reference: str | None,
    definition: Definition | None,
    is_text: bool,
) -> output.CommandResult:
    """Set the input NAME at PLACE, as NAME VALUE or NAME=VALUE.

    A VALUE that is valid JSON is a list, a number and so on; any other is a text.

    A number that an engine would write in another way, such as 1.30 or 1e3, is a text too. Engines make a number of it where a
    variable is declared as one.

    Without VALUE, it is asked for or read from standard input. The value of a secret is never an argument, because other
    users of this machine could see it.
    """
    if value is None and not is_file and "=" in name:
        name, _, value = name.partition("=")  # as `job run --var` takes it
    if is_secret and value is not None:
        raise Invalid(
            "a secret is not given as an argument, which the history of the shell and other users could see",
            hint=f"terracrew input set {place} {name} --secret, and enter it when you are asked, or pipe it in",
        )
    if source is not None and value is not None:
        raise Invalid("the value is given twice, as an argument and with --from: give only one of them")
    if reference is not None or definition is not None:
        if value is not None or source is not None or is_secret or (reference and definition):
            raise Invalid("--output or --about says what the value is: leave out VALUE, --from and --secret")
        kind = _target(is_environment, is_file)
        if reference is not None:
            module, _, output_name = reference.partition(":")
            if not module or not output_name:
                raise Invalid(f"--output {reference}: expected MODULE:OUTPUT, for example platform/network:vpc_id")
            new = NewInput(name, place, kind, output=OutputReference(module, output_name))
        else:
            new = NewInput(name, place, kind, definition=definition)
        made = target.api().post("/inputs", new, InputView)
        what = f"the output {made.source_output} of {made.source_module}"
        if definition is not None:
            what = f"the {definition.replace('_', ' ')} of the job"
        return output.message(made, f"set {made.name} of {origin(made)} to {what}")
    given = source.read() if source is not None else _read(name, is_hidden=is_secret) if value is None else value
    new = NewInput(name, place, _target(is_environment, is_file), overwrite=overwrite)
    if is_secret:
        new = msgspec.structs.replace(new, secret=given)
    else:
        is_plain = is_environment or is_file or is_text
        new = msgspec.structs.replace(new, value=given if is_plain else typed_values.read(given))
    made = target.api().post("/inputs", new, InputView)
    noun = "secret" if is_secret else _NOUNS[new.target]
    words = f"set {noun} {name} of {origin(made)}, version {made.version}"
    return output.message(made, words, before=f"warning: {made.warning}" if made.warning else "")


@inputs.command("remove")
@click.argument("place", shell_complete=name_completion.places)
@click.argument("name")
@_environment
@_file
@output.with_target
def remove(target: Target, place: str, name: str, is_environment: bool, is_file: bool) -> output.CommandResult:
    """Remove the input NAME from PLACE. If a place above has one of that name, it applies from then on."""
    query = {"place": place, "name": name, "target": _target(is_environment, is_file)}
    target.api().delete(f"/inputs?{urlencode(query)}")
    return output.message({"removed": name, "place": place}, f"removed {name} from {place}")


def shown(each: InputView) -> str:
    """Return the value of an input as a cell of a table."""
    if each.definition is not None:
        return f"({each.definition.replace('_', ' ')})"
    if each.kind == "output":
        unnamed = module_words.HIDDEN if each.is_source_hidden else "a deleted module"
        return f"{each.source_module or unnamed}:{each.source_output}"
    is_text = isinstance(each.value, str) and each.value
    return HIDDEN if each.is_hidden else each.value if is_text else msgspec.json.encode(each.value).decode()


def origin(each: InputView | UsedInput) -> str:
    """Return the place where an input is set."""
    return {"organization": "the organization", "job": "the job itself"}.get(each.place_kind) or each.path


def who(each: InputView | UsedInput) -> str:
    """Return who set an input and when."""
    return f"by {each.set_by_name}, {output.age(each.set_at)}" if each.set_at else ""


def name_of(each: InputView | UsedInput | Dependency) -> str:
    """Return the name of an input, which tells what becomes of it: `$NAME` is an environment variable, `./path` a file."""
    return {"environment": "$", "file": "./"}.get(each.target, "") + each.name


def _target(is_environment: bool, is_file: bool) -> InputTarget:
    if is_environment and is_file:
        raise Invalid("--env and --file exclude each other: an input is an environment variable or a file")
    return "environment" if is_environment else "file" if is_file else "variable"


def _read(name: str, *, is_hidden: bool) -> str:
    """Ask for a value, or read it from a pipe without the line end after it."""
    if sys.stdin.isatty():
        entered: str = click.prompt(name, hide_input=is_hidden, confirmation_prompt=is_hidden, err=True)
        return entered
    piped = sys.stdin.read()
    if not piped:
        raise Invalid(f"standard input is empty: there is no value for {name}")
    return piped.removesuffix("\n").removesuffix("\r")
