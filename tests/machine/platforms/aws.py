"""An emulator of AWS: moto's server, in the process of the tests. It checks neither signatures nor rights."""

import importlib
from typing import Any


class Aws:
    def __init__(self) -> None:
        self._server: Any = None

    def find(self) -> str | None:
        """Return nothing: nobody runs an emulator at a usual place."""

    def missing(self) -> str | None:
        try:
            importlib.import_module("boto3")
            importlib.import_module("moto.server")
        except ImportError as error:
            return f"{error.name} is not installed: `scripts/bootstrap --all-groups --all-extras` installs it"
        return None

    def prepare(self) -> None:
        """There is nothing to build."""

    def join(self) -> str:
        library: Any = importlib.import_module("moto.server")
        self._server = library.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        return f"http://{host}:{port}"

    def leave(self) -> None:
        self._server.stop()
