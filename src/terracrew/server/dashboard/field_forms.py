"""Forms from what fields say of themselves (`terracrew.api.fields`): what a form shows, and the change that it asks for."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, Protocol, TypeVar, get_args

import msgspec
from litestar import Response
from litestar.response import Redirect

from terracrew.api import fields
from terracrew.api.fields import StructField
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError, TooLarge
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.http import choices
from terracrew.wording import durations

C = TypeVar("C", bound=msgspec.Struct)
Kind = Literal["check", "checks", "choice", "number", "text", "lines", "group"]
STORED = "_stored"
"""The hidden field with the texts that were stored when the form was shown, by the names of the fields, as JSON."""
_UNITS = {"megabytes": " in MB", "percent": " in %"}
_ANSWERS = {"yes": True, "no": False}
_LINES = re.compile(r"[,\r\n]+")
_NULL = re.compile(r"\bnull\b", re.IGNORECASE)


class FormErrors(Invalid):
    """What was typed cannot be used; the messages by the names of the fields."""

    def __init__(self, messages: Mapping[Any, str]) -> None:
        super().__init__("; ".join(messages.values()))
        self.messages: dict[str, str] = dict(messages)


class FieldContext(msgspec.Struct, frozen=True):
    """What a page knows about a field besides what the field says of itself."""

    note: str = ""
    """Stands before the description, for example what applies if the field is empty."""
    offers: Sequence[str] = ()
    """Values that are offered while somebody types."""
    options: Sequence[tuple[str, str]] = ()
    """The values of a choice with their words."""
    hints: Mapping[str, str] = {}
    """What the values of a choice mean, by the values."""


NO_CONTEXT = FieldContext()


class FormField(msgspec.Struct, frozen=True):
    """A field of a form. The name of a field within a struct begins with that of the struct and a dot."""

    name: str
    about: StructField
    parts: tuple["FormField", ...] = ()
    """The fields of a struct that may be missing as a whole."""
    context: FieldContext = NO_CONTEXT

    @property
    def id(self) -> str:
        return self.name.replace("_", "-").replace(".", "-")

    @property
    def label(self) -> str:
        return self.about.label + _UNITS.get(self.about.words.unit, "")

    @property
    def hint(self) -> str:
        """Return the description. On a page, nothing is null: a field is empty. Boxes have descriptions of their own."""
        if self.kind == "checks":
            return self.context.note
        help_ = _NULL.sub(lambda found: "Empty" if found[0][0] == "N" else "empty", self.about.help)
        return " ".join(filter(None, (self.context.note, help_, self._syntax)))

    @property
    def _syntax(self) -> str:
        if self.about.shape == "list":
            return "Separated by commas."
        if self.about.shape != "map":
            return ""
        values = get_args(get_args(self.about.type)[-1])
        known = (
            f", with {', '.join(map(str, values[:-1]))} or {values[-1]}"
            if values and isinstance(values[0], str)
            else ""
        )
        return f"One on each line, such as `{self.about.words.metavar}`{known}."

    @property
    def kind(self) -> Kind:
        if self.parts:
            return "group"
        if self.about.shape == "list" and self.about.choices:
            return "checks"
        if self.context.options or self.about.shape == "choice":
            return "choice"
        if self.about.shape == "boolean":
            return "choice" if self.about.is_nullable else "check"
        if self.about.shape in ("integer", "number") and self.about.words.unit != "seconds":
            return "number"
        return "lines" if self.about.shape == "map" or self.about.words.is_long else "text"

    @property
    def options(self) -> list[tuple[str, str]]:
        if self.context.options:
            return [*self.context.options]
        found = _ANSWERS if self.about.shape == "boolean" else self.about.choices
        return [*([("", "Not set")] if self.about.is_nullable else []), *((each, each.capitalize()) for each in found)]

    @property
    def attributes(self) -> dict[str, object]:
        """Return the attributes of the input that follow from the type of the field."""
        example = self.about.words.metavar
        found: dict[str, object] = {"placeholder": example} if example != example.upper() else {}
        if self.kind == "number":
            bounds = {"min": self.about.minimum, "max": self.about.maximum}
            step = {} if self.about.shape == "integer" else {"step": "any"}
            return {
                "type": "number",
                **{name: f"{each:.15g}" for name, each in bounds.items() if each is not None},
                **step,
            }
        if self.about.shape == "text" and self.about.max_length:
            found["maxlength"] = self.about.max_length
        return found

    def written(self, value: Any) -> str:
        """Return a value as the form shows it."""
        about = self.about
        if value is None or value is msgspec.UNSET:
            return ""
        match about.shape:
            case "boolean":
                return ("yes" if value else "no") if about.is_nullable else ("true" if value else "")
            case "list":
                return ", ".join(value)
            case "map":
                return "\n".join(f"{key}={_number(each, about)}" for key, each in value.items())
            case _:
                return _number(value, about)

    def read(self, text: str, before: Any) -> Any:
        """Return what was typed, for the type of the field to check. `before` is the value that a map adds to."""
        text, about = text.strip(), self.about
        if about.shape == "boolean" and not about.is_nullable:
            return text == "true"
        if about.shape == "list":
            return _ordered(forms.split(text), about.choices)
        if about.shape == "map":
            kept = dict.fromkeys(map(str, before or ())) if about.words.is_merged else {}
            return kept | dict(self._pair(each) for each in map(str.strip, _LINES.split(text)) if each)
        if not text and (about.is_nullable or about.shape != "text"):
            return None if about.is_nullable else about.default
        if about.shape == "boolean":
            return _ANSWERS.get(text, text)
        if about.words.unit == "seconds":
            return self._seconds(text)
        if about.shape == "integer" and not re.fullmatch(r"-?[0-9]+", text):
            raise FormErrors({self.name: "write a whole number"})
        return text

    def _pair(self, text: str) -> tuple[str, Any]:
        key, separator, value = (each.strip() for each in text.partition("="))
        if not separator:
            raise FormErrors({self.name: f"write {key}={self.about.words.metavar.partition('=')[2] or 'VALUE'}"})
        keys, values = get_args(self.about.type)
        if isinstance(keys, type) and issubclass(keys, Enum) and key not in [each.value for each in keys]:
            raise FormErrors({self.name: f"{key!r} is not one of {', '.join(str(each.value) for each in keys)}"})
        if self.about.words.unit == "seconds":
            return key, self._seconds(value)
        known = {each.lower(): each for each in map(str, get_args(values))}
        return key, known.get(value.lower(), value)

    def _seconds(self, text: str) -> int:
        seconds = durations.parse(text)
        if seconds is None:
            raise FormErrors({self.name: f"{text!r} is not a duration: write 90s, 30m, 24h or 7d"})
        return seconds


def _ordered(words: Iterable[str], choices: Sequence[str]) -> list[str]:
    """Return each word once: in the order of the choices, if there are any, and otherwise sorted."""
    found = set(words)
    known = [each for each in choices if each in found]
    return [*known, *sorted(found.difference(known))]


def _number(value: Any, about: StructField) -> str:
    if about.words.unit == "seconds":
        return durations.written(int(value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def layout(
    kind: type[msgspec.Struct], names: Iterable[str] | None = None, context: Mapping[str, FieldContext] | None = None
) -> list[FormField]:
    """Return the fields of a form for a struct, or only those with these names. A struct in it is shown by its fields."""
    described = fields.describe(kind)
    return [
        each
        for name in (described if names is None else names)
        for each in _form_fields(name, described[name], context or {})
    ]


def _form_fields(name: str, about: StructField, context: Mapping[str, FieldContext]) -> Iterable[FormField]:
    if about.shape != "struct":
        return [FormField(name, about, context=context.get(name, NO_CONTEXT))]
    parts = [each for part, inner in about.fields.items() for each in _form_fields(f"{name}.{part}", inner, context)]
    return [FormField(name, about, tuple(parts))] if about.is_nullable else parts


def to_form(shown: Iterable[FormField], value: msgspec.Struct, **others: str) -> dict[str, str]:
    """Return the texts of a form for a value. `others` are those of fields that the value does not have itself."""
    found: dict[str, str] = {}
    for each in shown:
        at = _at(value, each.name)
        if not each.parts:
            found[each.name] = others.get(each.name, each.written(at))
        elif at is None:
            found |= dict.fromkeys((part.name for part in each.parts), "")
        else:
            found |= {part.name: part.written(_at(value, part.name)) for part in each.parts}
    return found


def show_form(
    shown: Iterable[FormField], value: msgspec.Struct, typed: Mapping[str, str], **others: str
) -> dict[str, str]:
    """Return the texts of a form for its page: what somebody typed, otherwise what is stored, which the form sends along."""
    stored = to_form(shown, value, **others)
    return stored | _edits(typed) | {STORED: msgspec.json.encode(stored).decode()}


def from_form(
    shown: Sequence[FormField], typed: Mapping[str, str], kind: type[C], value: msgspec.Struct, **others: str
) -> C:
    """Return the change that makes a value what was typed. Fields that are left out, or show what they showed, stay as they are.

    Raises FormErrors with all fields that are not valid, and those that somebody else has changed since the form was shown.
    """
    before, change, wrong = to_form(shown, value, **others), dict[str, Any](), dict[str, str]()
    edits, seen = _edits(typed), before | _stored(typed)
    for each in shown:
        parts = each.parts or (each,)
        if all(_plain(edits.get(part.name, before[part.name])) == _plain(before[part.name]) for part in parts):
            continue
        if moved := [part for part in parts if seen[part.name] != before[part.name]]:
            wrong |= {part.name: _changed_meanwhile(part, before[part.name]) for part in moved}
            continue
        try:
            asked = _group(each, before | edits) if each.parts else each.read(edits[each.name], _at(value, each.name))
            _convert(each, asked, kind)
        except FormErrors as error:
            wrong |= error.messages
        else:
            _put(change, each.name, asked)
    if wrong:
        raise FormErrors(wrong)
    return msgspec.convert(change, kind, strict=False)


def _edits(typed: Mapping[str, str]) -> dict[str, str]:
    """Return what was typed where it is not what the form showed. Of a form that does not say what it showed, this is everything."""
    seen = _stored(typed)
    return {name: text for name, text in typed.items() if name not in seen or _plain(text) != _plain(seen[name])}


def _stored(typed: Mapping[str, str]) -> dict[str, str]:
    try:
        return msgspec.json.decode(typed.get(STORED, "{}"), type=dict[str, str])
    except ValueError:
        raise Invalid("the form does not say what it showed: load the page again") from None


def _changed_meanwhile(field: FormField, text: str) -> str:
    words = {"": "No", "true": "Yes"} if field.kind == "check" else {"": "Not set", **dict(field.options)}
    word = words.get(text, ", ".join(text.splitlines()))
    return f"this was changed meanwhile to {word!r}: look at it and save again"


def _group(field: FormField, texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the struct that the fields of a group describe; None if all of them are empty."""
    filled = {part.about.name: text for part in field.parts if (text := texts[part.name].strip())}
    missing = [part.name for part in field.parts if part.about.is_required and part.about.name not in filled]
    if filled and missing:
        words = f"{field.label} needs this: write it, or empty all its fields"
        raise FormErrors(dict.fromkeys(missing, words))
    return filled or None


def _convert(field: FormField, asked: Any, kind: type[msgspec.Struct]) -> None:
    """Check what was typed into one field. Raises FormErrors with what to write instead."""
    request: dict[str, Any] = {}
    _put(request, field.name, asked)
    try:
        msgspec.convert(request, kind, strict=False)
    except msgspec.ValidationError as error:
        place, message = choices.struct_error(error, kind)
        part = next((each for each in field.parts if place == each.name), field)
        raise FormErrors({part.name: advise(part, message)}) from None


def advise(field: FormField, message: str) -> str:
    """Return what to write into a field instead, from what msgspec says about its value."""
    about = field.about
    if about.words.unit == "seconds" and about.shape == "integer" and about.minimum and about.maximum:
        least, most = durations.written(int(about.minimum)), durations.written(int(about.maximum))
        return f"write a duration between {least} and {most}"
    if message.startswith("Expected `str` matching regex") and field.attributes.get("placeholder"):
        return f"this is not valid: write it like {field.attributes['placeholder']}"
    return forms.advice(message)


def place_error(shown: Iterable[FormField], error: TerracrewError) -> dict[str, str]:
    """Return the message of an error by the field of the form that it is about; of no field, by the empty name."""
    if isinstance(error, FormErrors):
        return error.messages
    names = {name for each in shown for name in (each.name, *(part.name for part in each.parts))}
    if isinstance(error, Invalid) and error.field in names:
        return {error.field or "": error.reason}
    if (
        isinstance(error, NotFound) and "runner" in names
    ):  # of all fields, only this one names something that may not be found
        return {"runner": error.message}
    return {"": error.message}


class FormSection(msgspec.Struct, frozen=True):
    """A section of a page of settings. Its form is saved alone, so that nothing else is changed by it."""

    title: str
    fields: list[FormField]
    intro: list[str]

    @property
    def rows(self) -> list[list[FormField]]:
        """Return the fields in the rows in which they are shown: short ones in pairs, others alone."""
        found: list[list[FormField]] = []
        for each in self.fields:
            is_short = each.kind in ("choice", "number", "text")
            if is_short and found and len(found[-1]) == 1 and found[-1][0].kind in ("choice", "number", "text"):
                found[-1].append(each)
            else:
                found.append([each])
        return found


class SettingsPage(Protocol):
    """A page of settings in sections."""

    @property
    def folder(self) -> str:
        """Return the folder of its templates."""
        ...

    @property
    def address(self) -> str: ...
    @property
    def settings(self) -> msgspec.Struct: ...
    @property
    def shown(self) -> dict[str, str]:
        """Return the texts of fields that the settings do not have themselves."""
        ...

    @property
    def sections(self) -> dict[str, FormSection]: ...


def make_sections(
    kind: type[msgspec.Struct],
    titles: Mapping[str, str],
    context: Mapping[str, FieldContext],
    notes: Mapping[str, Sequence[str]],
) -> dict[str, FormSection]:
    """Return the sections of a struct that have titles. `notes` are paragraphs before the fields of a section."""
    described, made = fields.describe(kind), dict[str, FormSection]()
    for section, title in titles.items():
        names = [name for name, about in described.items() if about.words.section == section]
        about = [described[name].help for name in names if described[name].shape == "struct"]
        made[section] = FormSection(title, layout(kind, names, context), [*about, *notes.get(section, ())])
    return made


async def show_sections(
    request: DashboardCall,
    page: SettingsPage,
    changed: tuple[str, Mapping[str, str], dict[str, str]] | None = None,
    fragment: str = "section",
) -> Response[Any]:
    """Show all sections, or to htmx only the one that was changed.

    `changed` is the name of the section, what was typed into its form, and what is wrong.
    """
    name, typed, wrong = changed or ("", {}, {})
    sections = page.sections
    forms = {name: dict(typed)} | {
        each: show_form(section.fields, page.settings, typed if each == name else {}, **page.shown)
        for each, section in sections.items()
    }
    shown: dict[str, Any] = {"sections": sections, "page": page, "forms": forms, "wrongs": {name: wrong}, "name": name}
    return await render.page(request, f"{page.folder}/settings", fragment, here=page.address, **shown)


async def change_section(
    request: DashboardCall,
    name: str,
    kind: type[C],
    read: Callable[[], Awaitable[SettingsPage]],
    save: Callable[[C], Awaitable[object]],
) -> Response[Any]:
    """Save what was typed into the form of a section, and show the section: as it is stored now, or with what is wrong.

    `kind` is the change that `save` gets. A browser without scripts is sent to the page with all sections.
    """
    before, typed = await read(), await forms.read_texts(request)
    if name not in before.sections:
        raise NotFound(f"these settings have no section `{name[:50]}`")
    shown = before.sections[name].fields
    try:
        await save(from_form(shown, typed, kind, before.settings, **before.shown))
    except (Invalid, NotFound, Conflict, TooLarge) as error:
        return await show_sections(request, before, (name, typed, place_error(shown, error)))
    if not render.is_fragment(request):
        return Redirect(f"{before.address}#section-{name}", status_code=303)
    after = await read()
    answer = await show_sections(request, after, (name, {}, {}))
    answer.headers["HX-Trigger"] = json.dumps({"said": f"Saved: {after.sections[name].title}"})
    return answer


def _plain(text: str) -> str:
    return "\n".join(text.split("\r\n")).strip()


def _at(value: Any, name: str) -> Any:
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


def _put(request: dict[str, Any], name: str, value: Any) -> None:
    *outer, last = name.split(".")
    for each in outer:
        request = request.setdefault(each, {})
    request[last] = value
