"""Starts this version of the runner for a launcher (`runner.updating.launcher`), which may be of another version.

It reads the settings itself, since only it knows which ones it has, and becomes the runner. With `--check`, it ends when it has read
them and has imported what the runner consists of, and prints its version. Nothing secret is in its arguments or its environment.
"""

import importlib
import os
import sys
from pathlib import Path

import msgspec

from terracrew import __version__
from terracrew.errors import TerracrewError
from terracrew.runner import handover, installation
from terracrew.runner.handover import Launch, Launched
from terracrew.runner.updating import versions
from terracrew.settings import layers
from terracrew.system import procfs

RUNNER, EXECUTOR = "terracrew.runner.process", "terracrew.executor.main"


def main() -> int:
    procfs.forbid_inspection()
    descriptor, *options = sys.argv[1:]
    if options:  # before there is a secret that a traceback could show
        importlib.import_module(RUNNER)
        importlib.import_module(EXECUTOR)
    with open(int(descriptor), "rb") as file:
        file.seek(0)
        launch = msgspec.json.decode(file.read(), type=Launch)
    os.environ.update(launch.environment)
    try:
        config = layers.load(Path(launch.file) if launch.file else None, launch.options, launch.flags)
    except TerracrewError as error:
        return _refuse(launch, error.message, error.exit_code)
    except Exception as error:
        return _refuse(launch, f"the settings cannot be read: {type(error).__name__}", 1)
    if options:
        print(__version__)
        return 0
    launched = Launched(launch.lock, launch.is_on_trial)
    config = msgspec.structs.replace(config, installation=installation.find(os.environ))
    return handover.become(config, launch.file, launch.options, launch.flags, launched=launched)


def _refuse(launch: Launch, words: str, code: int) -> int:
    print(words, file=sys.stderr, flush=True)
    if launch.is_on_trial:
        versions.give_up(versions.folder_of(Path(launch.working_directory)), words)
    return code


if __name__ == "__main__":
    sys.exit(main())
