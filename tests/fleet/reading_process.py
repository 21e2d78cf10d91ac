"""A fleet process whose cloud tries to read a file of the server."""

import os
import sys

from terracrew.api.cloud_identities import FoundResource
from terracrew.clouds.contract import CloudRefused
from terracrew.fleet.main import main
from tests.fleet.simulated_cloud import SimulatedCloud


class _ReadingCloud(SimulatedCloud):
    async def found(self) -> list[FoundResource]:
        try:
            with open(os.environ["LC_PROBE"]) as file:
                raise CloudRefused(f"the secret is {file.read()}")
        except PermissionError as error:
            raise CloudRefused(str(error)) from error


if __name__ == "__main__":
    main(sys.argv[1:], _ReadingCloud)
