"""Reads a runner's settings again, in a process of its own: the runner itself does not load the code that checks settings.

The runner starts it, waits for the line `ready`, sends what the settings were read from, and gets the result as JSON. Nothing
secret is in its arguments or its environment, and no other process may inspect it before it gets a secret.
"""

import os
import sys
from pathlib import Path

import msgspec

from terracrew.errors import TerracrewError
from terracrew.runner.handover import SettingsSource
from terracrew.runner.reload import READY, Reread
from terracrew.settings import layers
from terracrew.system import procfs


def main() -> None:
    procfs.forbid_inspection()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    source = msgspec.json.decode(sys.stdin.buffer.read(), type=SettingsSource)
    os.environ.update(source.environment)
    try:
        found = Reread(layers.load(Path(source.file) if source.file else None, source.options, source.flags))
    except TerracrewError as error:
        found = Reread(None, error.message)
    sys.stdout.buffer.write(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
