"""Finds the commands of Terracrew in a text, and says what is wrong with one, without running it."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

import click

from terracrew.cli.main import cli
from terracrew.server.pull_requests.commands import NAMES as OF_COMMENTS

_PROGRAM = re.compile(r"(?:/opt/terracrew/bin/)?terracrew")
_CODE = re.compile(r"`(terracrew [^`]+)`")
_PUNCTUATION = set("();<>|&`")
_BEFORE_A_COMMAND = _PUNCTUATION | {"-"}
"""The characters of what stands before a command: `- ` in a list, `|`, `$(`, or the `--` of another program that runs it."""
_PLACEHOLDER = re.compile(r"[A-Z_|]+|.*…")


def typed(text: str) -> Iterator[list[str]]:
    """Yield the words of each command that stands in a block of code, also in a pipeline or in `$(…)`."""
    text = re.sub(r"\\\n\s*", "", text)
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(re.findall(r"^ {4,}.*$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE))
    for line in f"{fenced}\n{indented}".splitlines():
        yield from _of_line(line)


def mentioned(text: str) -> Iterator[list[str]]:
    """Yield the words of each command in the middle of a sentence, which may leave out its arguments."""
    for line in _CODE.findall(text):
        yield from _of_line(re.sub(r"[\[\]]", "", line))


def _of_line(line: str) -> Iterator[list[str]]:
    if not re.search(r"\bterracrew ", line):
        return
    reader = shlex.shlex(line, posix=True, punctuation_chars="".join(_PUNCTUATION))
    reader.whitespace_split = True
    try:
        words = list(reader)
    except ValueError:  # an apostrophe in a remark
        words = line.split()
    found: list[str] | None = None
    for before, word in pairwise(["-", *words]):
        if found is None:
            found = [] if _PROGRAM.fullmatch(word) and set(before) <= _BEFORE_A_COMMAND else None
        elif set(word) <= _PUNCTUATION:
            yield found
            found = None
        else:
            found.append(word)
    if found is not None:
        yield found


def fault(words: list[str], *, is_whole: bool) -> str:
    """Return what is wrong with a command, or nothing. If it is `is_whole`, its required arguments must be there."""
    if not is_whole and words and words[0] in OF_COMMENTS:
        return ""  # it is what people write in a comment on a pull request
    command: click.Command = cli
    context = click.Context(cli, info_name="terracrew")
    while True:
        try:
            given, rest, _ = command.make_parser(context).parse_args(list(words))
        except click.UsageError as error:
            is_cut_off = not is_whole and isinstance(error, click.BadOptionUsage)  # an option without its value
            return "" if is_cut_off else error.format_message()
        if not isinstance(command, click.Group):
            missing = [
                each.name for each in command.params if each.required and not _is_given(given.get(each.name or ""))
            ]
            return "" if not rest and not (is_whole and missing) else f"left over: {rest}, missing: {missing}"
        if not rest:
            return ""
        inner = command.get_command(context, rest[0])
        if inner is None:
            return "" if _PLACEHOLDER.fullmatch(rest[0]) else f"there is no command {rest[0]}"
        command, words = inner, rest[1:]
        context = click.Context(inner, parent=context, info_name=inner.name)


def _is_given(value: object) -> bool:
    return isinstance(value, str | tuple) and value != ()
