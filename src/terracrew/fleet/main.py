"""Starts the fleet process on the socket that it has inherited."""

import asyncio
import os
import resource
import socket
import sys

from terracrew import logging
from terracrew.clouds.contract import OpenCloud
from terracrew.fleet.process import FleetProcess, open_cloud
from terracrew.system import procfs

LOG_LEVELS = {"botocore": "warning", "boto3": "warning", "urllib3": "warning"}
"""These libraries tell about every connection and client."""


def main(arguments: list[str], open_one: OpenCloud = open_cloud) -> None:
    """Serve the descriptor of `--fd`. The process ends at once when its socket does: calls that were made may have happened."""
    if len(arguments) != 2 or arguments[0] != "--fd" or not arguments[1].isdecimal():
        sys.exit("usage: python -m terracrew.fleet --fd DESCRIPTOR (the server starts it)")
    procfs.forbid_inspection()  # its memory has the sessions of cloud accounts
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.configure(LOG_LEVELS, sys.stderr)
    connection = socket.socket(fileno=int(arguments[1]))
    connection.setblocking(False)
    asyncio.run(_serve(connection, open_one))


async def _serve(connection: socket.socket, open_one: OpenCloud) -> None:
    os._exit(await FleetProcess(connection, open_one).run())  # neither tasks nor threads are waited for
