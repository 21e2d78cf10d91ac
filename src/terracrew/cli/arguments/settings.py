"""Options that are made from the fields of a request: their names, helps, bounds and choices are those of the fields."""

import functools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec

from terracrew.api import fields
from terracrew.api.fields import StructField
from terracrew.cli.arguments.values import Number, WholeNumber
from terracrew.cli.printing import details
from terracrew.errors import Invalid
from terracrew.protocol.field import VCPU_UNIT_COUNT
from terracrew.wording import durations

F = TypeVar("F", bound=Callable[..., Any])
NULL = object()
"""What an option yields for the word that means null."""
_PREFIX = "setting"
_NULL = re.compile(r"\bnull\b", re.IGNORECASE)
_MEGABYTES = {"": 1, "M": 1, "MB": 1, "G": 1024, "GB": 1024}
_UNITS = {
    "seconds": "a duration such as 90s, 30m or 24h",
    "megabytes": "a size such as 512MB or 2GB",
    "vcpus": "a number of processors such as 0.5 or 2",
}


def request_options(
    kind: type[msgspec.Struct],
    name: str = "change",
    *,
    defaults: type[msgspec.Struct] | None = None,
    own: Collection[str] = (),
    without: Collection[str] = (),
    removals: Mapping[str, tuple[str, str]] | None = None,
    completions: Mapping[str, Callable[..., Any]] | None = None,
) -> Callable[[F], F]:
    """Add an option for each field of a request that has one, and hand the command the request as its argument `name`.

    `defaults` is the request that creates something, whose defaults the help shows; `kind` itself if none of its fields may be left out.
    `own` are fields whose values the command has as arguments or options of its own, of the same names. `removals` are flags that remove
    the value of a field: the name and the help of the flag by the name of the field. `completions` complete the values of options by
    their fields.
    """
    found = [each for each in _leaves(kind) if each[0][0] not in without]
    flags = removals or {}

    def add(command: F) -> F:
        @functools.wraps(command)
        def run(*args: Any, **values: Any) -> Any:
            given = {each: value for each in own if (value := values.pop(each)) is not None}
            request = _request(kind, found, flags, values, given)
            return command(*args, **{name: request}, **values)

        decorated: Any = run
        for path, field in reversed(found):
            flag, about = flags.get(path[-1], ("", ""))
            if flag:
                decorated = click.option(flag, f"no_{_parameter(path)}", is_flag=True, help=about)(decorated)
            complete = (completions or {}).get(path[-1])
            decorated = _option(path, field, defaults, flag, complete)(decorated)
        return decorated

    return add


def read_changes(change: msgspec.Struct) -> dict[str, Any]:
    """Return what the options of a command change. Raises Invalid if none of them was given."""
    if found := fields.given(change):
        return found
    command = click.get_current_context().command_path
    raise Invalid(f"no option was given that changes it: see `{command} --help`")


def _leaves(kind: type[msgspec.Struct], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Yield the fields that have options, with their paths. Those of a struct within the request come one by one."""
    for field in fields.describe(kind).values():
        path = (*above, field.name)
        if field.option is None or (field.words == fields.Field() and not above):
            continue
        if field.shape == "struct" and not _is_map_of_structs(field):
            yield from ((path + inner[0][len(path) :], inner[1]) for inner in _leaves(_struct_of(field), path))
        elif field.shape != "other":
            yield path, field


def _struct_of(field: StructField) -> type[msgspec.Struct]:
    return next(iter(field.fields.values())).owner


def _is_map_of_structs(field: StructField) -> bool:
    return bool(field.fields) and all(each.shape == "struct" for each in field.fields.values())


def _parameter(path: tuple[str, ...]) -> str:
    return "_".join((_PREFIX, *path))


def _option(
    path: tuple[str, ...],
    field: StructField,
    defaults: type[msgspec.Struct] | None,
    removal: str,
    complete: Callable[..., Any] | None,
) -> Callable[[Any], Any]:
    """Return the option of a field. `removal` is the flag that removes its value; empty if a word of the option does.

    A description names null, which nobody can type: the help names the flag or the word instead.
    """
    option, parameter, null = field.option or "", _parameter(path), field.words.null
    accepts_null = field.is_nullable and not removal
    help_text = _NULL.sub(f"`{removal or null}`", field.help or f"{field.label}.")
    settings: dict[str, Any] = {"default": None, "help": help_text, "shell_complete": complete}
    if field.shape == "boolean" and not field.is_nullable:
        both = option if "/" in option else f"{option}/--no-{option.removeprefix('--')}"
        return click.option(both, parameter, **settings)
    if _is_map_of_structs(field):
        return _file_option(option, parameter, field)
    if field.shape == "boolean":
        settings["type"] = _Choice(("yes", "no"), null)
    elif field.shape == "choice":
        settings["type"] = _Choice(field.choices, null if accepts_null else None)
    else:
        settings["type"] = _Value(field, null if accepts_null or field.shape == "map" else None)
        settings["metavar"] = _metavar(field, null if accepts_null or field.shape == "map" else "")
    if field.shape in ("list", "map"):
        settings["multiple"] = True
        settings["help"] = f"{help_text} Can be repeated" + ("; replaces all." if field.shape == "list" else ".")
    elif defaults is not None:
        usual = fields.describe(defaults)[field.name].default if len(path) == 1 else field.default
        if isinstance(usual, str | int) and usual:
            settings["show_default"] = usual if isinstance(usual, str) else details.written(usual, field.words.unit)
    return click.option(option, parameter, **settings)


def _file_option(option: str, parameter: str, field: StructField) -> Callable[[Any], Any]:
    names = tuple(field.fields)
    file = click.option(
        option,
        parameter,
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help=f"A JSON file with an object of {', '.join(names)}. {field.help}",
    )
    removed = click.option(
        f"--no-{option.removeprefix('--')}",
        f"no_{parameter}",
        type=click.Choice(names),
        multiple=True,
        help="Remove its own one, so that the one of a group above applies. Can be repeated.",
    )
    return lambda command: file(removed(command))


def _metavar(field: StructField, null: str) -> str:
    metavar = field.words.metavar or ("N" if field.shape in ("integer", "number") else "TEXT")
    if not null:
        return metavar
    name, equals, _ = metavar.partition("=")
    return f"{metavar}|{name}={null}" if equals and field.words.unit else metavar if equals else f"{metavar}|{null}"


class _Choice(click.Choice[str]):
    """One of some words; the last one may mean null."""

    def __init__(self, words: tuple[str, ...], null: str | None) -> None:
        super().__init__([*words, *([null] if null else [])])
        self._null = null

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        found = super().convert(value, param, ctx)
        return NULL if found == self._null else {"yes": True, "no": False}.get(found, found)


class _Value(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    """The value of a field as people write it: with its unit, and within its bounds."""

    name = "value"

    def __init__(self, field: StructField, null: str | None) -> None:
        self._field, self._null = field, null

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if self._field.shape == "map":
            return self._pair(value, param, ctx)
        if value == self._null:
            return NULL
        if self._field.shape in ("integer", "number"):
            return self._number(value, param, ctx)
        return value

    def _pair(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        key, equals, text = value.partition("=")
        try:
            msgspec.convert({key: None}, self._field.type)
        except msgspec.ValidationError:
            equals = ""
        if not equals:
            self.fail(f"{value!r} is neither like {self._field.words.metavar} nor NAME={self._null}", param, ctx)
        if text in ("", self._null):
            return key, None
        return key, self._number(text, param, ctx) if self._field.words.unit else text

    def _number(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> float | int:
        unit, low, high = self._field.words.unit, self._field.minimum, self._field.maximum
        found = _READERS[unit](text) if unit in _READERS else None
        is_plain = text.removeprefix("-" if (low or 0) < 0 else "").replace(".", "", 1).isdecimal()
        if found is None and not (is_plain and unit in ("", "percent")):
            expected = _UNITS.get(unit, "a number")
            words = f"neither {expected} nor `{self._null}`" if self._null else f"not {expected}"
            self.fail(f"{text!r} is {words}", param, ctx)
        if found is not None:
            if found < (found if low is None else low) or found > (found if high is None else high):
                bounds = (("at least", low), ("at most", high))
                limits = [f"{words} {details.written(each, unit)}" for words, each in bounds if each]
                self.fail(f"{text} is out of bounds: {', '.join(limits)}", param, ctx)
            return found
        bounds: Any = Number(low, high, min_open=self._field.is_minimum_excluded)
        if self._field.shape == "integer":
            bounds = WholeNumber(None if low is None else int(low), None if high is None else int(high))
        return bounds.convert(text, param, ctx)


def _cpu_units(text: str) -> int | None:
    """Return the units of a number of processors: 1,024 are one."""
    return round(float(text) * VCPU_UNIT_COUNT) if text.replace(".", "", 1).isdecimal() else None


def _megabytes(text: str) -> int | None:
    """Return a size such as `512MB` or `2GB` in MB; None if the text is none."""
    number = text.upper().rstrip("MBG").strip()
    unit = text.upper().removeprefix(number).strip()
    return int(number) * _MEGABYTES[unit] if number.isdecimal() and unit in _MEGABYTES else None


_READERS: dict[str, Callable[[str], int | None]] = {
    "seconds": durations.parse,
    "megabytes": _megabytes,
    "vcpus": _cpu_units,
}


def _request(
    kind: type[msgspec.Struct],
    found: list[tuple[tuple[str, ...], StructField]],
    flags: Mapping[str, tuple[str, str]],
    values: dict[str, Any],
    given: dict[str, Any],
) -> msgspec.Struct:
    """Return the request with what was given, and take it out of `values`."""
    for path, field in found:
        value, parameter = values.pop(_parameter(path)), f"no_{_parameter(path)}"
        is_given = value is not None and value != ()
        if _is_map_of_structs(field):
            value = _read(value, field) | dict.fromkeys(values.pop(parameter))
            is_given = bool(value)
        elif values.pop(parameter, False):
            if is_given:
                raise Invalid(f"{field.option} and {flags[path[-1]][0]} exclude each other: give only one of them")
            value, is_given = () if field.shape == "list" else NULL, True
        if is_given:
            inside = given
            for name in path[:-1]:
                inside = inside.setdefault(name, {})
            inside[path[-1]] = _sent(field, value)
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise Invalid(str(error)) from None


def _sent(field: StructField, value: Any) -> Any:
    if field.shape == "list":
        return [each for each in value if each]
    return (
        dict(value) if field.shape == "map" else None if value is NULL or (value == "" and field.is_nullable) else value
    )


def _read(file: Path | None, field: StructField) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found: Any = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Invalid(f"{file} cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise Invalid(f"{file} should have an object of {', '.join(field.fields)}")
    return cast("dict[str, Any]", found)
