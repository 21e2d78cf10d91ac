"""A cluster as tests use it."""

import contextlib
import fcntl
import json
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from tests.machine import platforms
from tests.machine.platforms import executor_image
from tests.machine.platforms.kubernetes import commands, files
from tests.machine.platforms.kubernetes.places import Places

_COMMAND_SECONDS = 120
_LOAD_SECONDS = 300


class Cluster:
    def __init__(self, places: Places) -> None:
        self.places = places
        self.kubeconfig = str(places.kubeconfig)
        self.address, self.url = places.address, places.url

    @classmethod
    def of(cls, kubeconfig: str) -> "Cluster":
        """Return the cluster of a kubeconfig that `platforms.need("kubernetes")` returned."""
        return cls(Places(int(Path(kubeconfig).parents[1].name)))

    # ---- objects

    def kubectl(self, *arguments: str, text: str | None = None, code: int = 0) -> str:
        """Return what kubectl printed, standard error included if it failed as expected."""
        command = [*commands.kubectl(self.places), *arguments]
        done = subprocess.run(
            command,
            input=text,
            env=commands.environment(),
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == code, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr

    def is_done(self, *arguments: str) -> bool:
        """Return whether a command of kubectl succeeds."""
        command = [*commands.kubectl(self.places), *arguments]
        done = subprocess.run(
            command, env=commands.environment(), capture_output=True, timeout=_COMMAND_SECONDS, check=False
        )
        return done.returncode == 0

    def get(self, namespace: str, *arguments: str) -> dict[str, Any]:
        """Return an object, or a list of objects, as the API shows it."""
        return json.loads(self.kubectl("get", "--namespace", namespace, *arguments, "--output", "json"))

    def apply(self, namespace: str, *objects: dict[str, Any]) -> None:
        """Create or change objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--namespace", namespace, "--filename", "-", text=text)

    @contextlib.contextmanager
    def namespace(self, **labels: str) -> Generator[str]:
        """Make a namespace of a new name that can run pods, and delete it with all that is in it."""
        name = f"test-{secrets.token_hex(6)}"
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        self.apply("default", made)
        try:
            # A pod cannot be made before its service account.
            self.kubectl("wait", "--for=create", "serviceaccount/default", "--namespace", name, "--timeout=60s")
            yield name
        finally:
            # A test that has stopped the API server says what is wrong by itself, and its cluster ends with all namespaces.
            self.is_done("delete", "namespace", name, "--wait=false")
            self.is_done("delete", "pods", "--all", "--namespace", name, "--force", "--grace-period=0", "--wait=false")

    def token(self, namespace: str, service_account: str, *arguments: str) -> str:
        """Return a token of a service account, for example with `--audience=…` or `--duration=1h`."""
        return self.kubectl("create", "token", service_account, "--namespace", namespace, *arguments).strip()

    @contextlib.contextmanager
    def trusting(self, issuer: dict[str, Any]) -> Generator[None]:
        """Let the API server accept the tokens of an issuer: an entry of `jwt` in an AuthenticationConfiguration."""
        self._change_issuers(lambda known: [*known, issuer])
        try:
            yield
        finally:
            self._change_issuers(lambda known: [each for each in known if each != issuer])

    def _change_issuers(self, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
        with (self.places.issuers.parent / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            files.write_issuers(self.places, change(files.read_issuers(self.places)))

    # ---- images

    def load(self, image: str, *, docker: str) -> str:
        """Put an image of the Docker daemon at this address into the node, unless it has it. Use `imagePullPolicy: Never`."""
        ctr = ["ctr", "--address", str(self.places.containerd), "--namespace", "k8s.io", "images"]
        names = subprocess.run([*ctr, "list", "--quiet"], check=True, capture_output=True, text=True).stdout.split()
        if f"docker.io/{image}" not in names:
            save = subprocess.Popen(["docker", "--host", docker, "save", image], stdout=subprocess.PIPE)
            with save:
                done = subprocess.run(
                    [*ctr, "import", "-"], stdin=save.stdout, capture_output=True, timeout=_LOAD_SECONDS, check=False
                )
            assert (save.returncode, done.returncode) == (0, 0), done.stderr.decode()
        return image

    def executor_image(self, *, has_shell: bool = True) -> str:
        """Return the name of the image that tests run executors in; the node has it. It is made with Docker."""
        docker = platforms.need("docker")
        return self.load(executor_image.image(docker, has_shell=has_shell), docker=docker)

    # ---- parts: only for a test with a cluster of its own

    def stop(self, part: str) -> None:
        """End a part at once: `kubelet`, `kube-apiserver`, `kube-scheduler`, … Containers continue without a kubelet."""
        self._do(f"stop {part}")

    def start(self, part: str) -> None:
        """Start a part that was stopped, and return when the API server answers if it is that one."""
        self._do(f"start {part}")

    def pause(self, part: str) -> None:
        """Let a part answer nothing, while it keeps its connections."""
        self._do(f"pause {part}")

    def resume(self, part: str) -> None:
        self._do(f"resume {part}")

    def replace_signing_key(self) -> None:
        """Let the API server sign tokens with a new key, and accept and publish only that one."""
        self.stop("kube-apiserver")
        files.write_signing_key(self.places.signing_key)
        self.start("kube-apiserver")

    def ask(self, line: str) -> str:
        """Send a line to the process that starts and stops the others, and return its answer."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_COMMAND_SECONDS)
            connection.connect(str(self.places.control))
            connection.sendall(line.encode())
            return connection.makefile().read()

    def _do(self, line: str) -> None:
        answer = self.ask(line)
        assert answer == "done", f"{line}: {answer}"

    # ---- waiting

    def wait(self, what: str, is_true: Callable[[], Any], within: float = 60) -> Any:
        """Return the first true value of a question to the cluster."""
        deadline = time.monotonic() + within
        while not (found := is_true()):
            assert time.monotonic() < deadline, f"no {what} within {within:.0f} seconds"
            time.sleep(0.1)
        return found

    def trust(self) -> ssl.SSLContext:
        """Return a context that trusts the API server."""
        return ssl.create_default_context(cafile=str(self.places.authority))
