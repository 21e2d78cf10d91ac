"""Starts an executor with what it reads from its standard input, for dispatchers that cannot fork one."""

import sys

import msgspec

from terracrew import procfs
from terracrew.executor import main
from terracrew.protocol.start import ExecutorStart

procfs.forbid_inspection()
sys.exit(main.run(msgspec.json.decode(sys.stdin.buffer.read(), type=ExecutorStart)))
