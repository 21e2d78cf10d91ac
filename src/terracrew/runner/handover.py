"""From the command to the runner: a fresh process image that was given checked settings and never loaded what checked them."""

import os
import sys
from typing import NoReturn

import msgspec

from terracrew.runner import environment
from terracrew.runner.config import RunnerConfig


def offer(config: RunnerConfig) -> int:
    """Put the settings where only this process and what it becomes can read them."""
    descriptor = os.memfd_create("runner-config", 0)  # not closed on exec
    with open(os.dup(descriptor), "wb") as file:
        file.write(msgspec.json.encode(config))
    return descriptor


def accept(descriptor: int) -> RunnerConfig:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=RunnerConfig)


def become(config: RunnerConfig) -> NoReturn:
    """Replace this process by the runner. What is ours leaves the environment, where every engine could read it."""
    arguments = [sys.executable, "-P", "-m", "terracrew.runner", str(offer(config))]
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, arguments, environment.of_helper(os.environ, is_built_in=False))  # noqa: S606
