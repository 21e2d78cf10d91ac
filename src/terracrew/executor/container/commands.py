"""What the first process of a container can be told to do.

- nothing: run the attempt that is put on the volume, whose container another one can follow;
- `spare`: the same, in a container that was started before its job is known, and waits longer for it;
- `ephemeral`: run an attempt whose files are lost with the container (`ephemeral`);
- `engines`: print the engines of the image;
- `remember`: while an image is built, write the versions of its engines where containers of the image read them;
- `remove`: remove what an attempt left in a directory of the host.
"""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from terracrew import plugins
from terracrew.attempt import exit_codes, files
from terracrew.errors import EngineMissing, Invalid
from terracrew.executor import main, startup
from terracrew.executor.container import arrival, ephemeral, executor_process, reaper, shared_cache
from terracrew.executor.container.paths import ROOT
from terracrew.executor.container.reaper import ContainerReaper
from terracrew.executor.engines import contract
from terracrew.system import trees
from terracrew.toolchains import discovery, remembered


def run(arguments: Sequence[str]) -> int:
    """Do it, and return the exit code of the container."""
    given = _parsed(arguments)
    if given.command in (None, arrival.SPARE):
        seconds = arrival.SPARE_SECONDS if given.command else arrival.WAIT_SECONDS
        return startup.exit_code_of(lambda: _run_on_volume(seconds))
    if given.command == "ephemeral":
        return ephemeral.run(given.start, Path(given.report) if given.report else None)
    reaper.unblock()
    if given.command == "engines":
        return startup.exit_code_of(lambda: _print_engines(given.report))
    if given.command == "remember":
        return startup.exit_code_of(_remember)
    return startup.exit_code_of(lambda: _remove(given.name))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m terracrew.executor.container")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser(arrival.SPARE)
    once = commands.add_parser("ephemeral")
    once.add_argument("--start", required=True, help="file:PATH, variable:NAME (base64) or ticket:URL")
    once.add_argument("--report", default="", help="the file that says how the attempt ended")
    commands.add_parser("engines").add_argument("--report", default="", help="the file to print to")
    commands.add_parser("remember")
    commands.add_parser("remove").add_argument("name")
    return parser.parse_args(arguments)


def _run_on_volume(wait_seconds: float) -> int:
    if not arrival.has_come():
        main.preload()  # while the job is on its way, or in a container that was started ahead of it
    content = arrival.wait(wait_seconds)
    if content is None:
        return exit_codes.NOT_BEGUN
    start = executor_process.read(content)
    if start.is_salvage and not (Path(start.directory) / files.RECORD).exists():
        return exit_codes.NOTHING_LEFT
    executor_process.make_directories(start)
    executor = executor_process.fork(start)
    reaper = ContainerReaper(executor, start.interrupt_seconds, tidy=arrival.remove_repeated)
    code = reaper.reap()
    if not reaper.is_stopping:
        shared_cache.fill(start)
    return code if code >= 0 else 128 - code


def _remove(name: str) -> int:
    """Remove what an attempt left in a directory of the host."""
    if "/" in name or name in ("", ".", ".."):
        raise Invalid(f"{name!r} is not the name of an attempt's directory")
    folder = ROOT / name
    if folder.is_dir():
        trees.remove(folder)
    return 0


def _remember() -> int:
    remembered.write({each.path: each.version for each in discovery.find_all() if discovery.answers(each)})
    return 0


def _print_engines(path: str) -> int:
    """Print the engines of this image, each with its versions, for the runner that announces them to the server."""
    found: dict[str, list[str]] = {}
    for name in plugins.names(plugins.ENGINES):
        with contextlib.suppress(EngineMissing):
            versions = [each.version for each in contract.engine_named(name).find_all([]) if discovery.answers(each)]
            found |= {name: list(dict.fromkeys(versions))} if versions else {}
    text = msgspec.json.encode(found).decode()
    if path:
        Path(path).write_text(text)
    else:
        print(text)
    return 0
