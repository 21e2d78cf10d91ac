"""The first process of a cluster's namespace: it starts the parts of Kubernetes, and stops and starts them when tests ask.

A test connects to its socket and sends one line, `stop kubelet`; the answer is `done`, or what went wrong. A part that is
paused keeps its connections and answers nothing; one that is stopped refuses connections.
"""

import contextlib
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from tests.machine.platforms.kubernetes import commands, files
from tests.machine.platforms.kubernetes.places import Places

_START_SECONDS = 90.0
_STOP_SECONDS = 20.0
_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet would otherwise change on this machine."""


class Inside:
    def __init__(self, number: int, *, has_node: bool) -> None:
        self.places, self.has_node = Places(number), has_node
        self._commands = commands.all_of(self.places)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._wanted: set[str] = set()

    def start_all(self) -> None:
        files.write(self.places)
        self.start("etcd")
        self.start("kube-apiserver")
        self.start("kube-controller-manager")
        self.start("kube-scheduler")
        if self.has_node:
            self._hide_the_machine()
            files.write_of_node(self.places)
            self.start("containerd")
            self.start("kubelet")
        self._kubectl(*commands.PUBLISH_ISSUER)
        self._wait(
            "the service account of the default namespace", lambda: self._asked("get", "serviceaccount", "default")
        )
        if self.has_node:
            self._wait("the node", self._node_is_ready)

    def _hide_the_machine(self) -> None:
        for folder in ("/run", "/var/lib", "/var/log"):
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
        for name, value in _SYSCTLS.items():
            file = self.places.data / name.replace("/", "_")
            file.write_text(value)
            subprocess.run(["mount", "--bind", str(file), f"/proc/sys/{name}"], check=True)

    def start(self, name: str) -> None:
        with (self.places.logs / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._commands[name], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.places.data
            )
        self._wanted.add(name)
        if name == "kube-apiserver":
            self._wait("the API server", self._api_is_ready)
        if name == "containerd":
            self._wait("containerd", self.places.containerd.exists)
            command = ["ctr", "-a", str(self.places.containerd), "-n", "k8s.io", "images", "import"]
            subprocess.run([*command, str(self.places.data / "pause.tar")], check=True, capture_output=True)

    def stop(self, name: str) -> None:
        process = self._processes[name]
        self._wanted.discard(name)
        # A server that is asked to end waits for its clients, and a test that stops one wants it gone.
        process.kill()
        process.wait(_STOP_SECONDS)

    def pause(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self._processes[name].send_signal(signal.SIGCONT)

    def status(self) -> str:
        ended = sorted(name for name in self._wanted if self._processes[name].poll() is not None)
        return f"ended: {', '.join(ended)}" if ended else "done"

    def answer(self, line: str) -> str:
        verb, _, name = line.strip().partition(" ")
        known: dict[str, Callable[[str], None]] = {
            "stop": self.stop,
            "start": self.start,
            "pause": self.pause,
            "resume": self.resume,
        }
        if verb == "status":
            return self.status()
        try:
            known[verb](name)
        except (KeyError, RuntimeError, OSError, subprocess.SubprocessError) as error:
            return repr(error)
        return "done"

    def serve(self) -> None:
        """Answer tests until the namespace ends."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.places.control))
            listener.listen()
            while True:
                if select.select([listener], [], [], 0.5)[0]:
                    connection, _ = listener.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.settimeout(5)
                        connection.sendall(self.answer(connection.recv(200).decode()).encode())
                self._reap()

    def _reap(self) -> None:
        """Collect processes whose parents have ended, such as those between containerd and a container."""
        own = {process.pid for process in self._processes.values()}
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if found.si_pid in own:
                    next(each for each in self._processes.values() if each.pid == found.si_pid).poll()
                else:
                    os.waitpid(found.si_pid, os.WNOHANG)

    def _wait(self, what: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while not is_done():
            if (status := self.status()) != "done" or time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not become ready ({status}): see {self.places.logs}")
            time.sleep(0.05)  # none of them says when it listens

    def _api_is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.places.authority))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with opener.open(f"{self.places.url}/readyz", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def _kubectl(self, *arguments: str) -> str:
        return subprocess.run(
            [*commands.kubectl(self.places), *arguments], check=True, capture_output=True, text=True
        ).stdout

    def _asked(self, *arguments: str) -> bool:
        return (
            subprocess.run([*commands.kubectl(self.places), *arguments], check=False, capture_output=True).returncode
            == 0
        )

    def _node_is_ready(self) -> bool:
        path = '{.items[*].status.conditions[?(@.type=="Ready")].status}'
        return self._kubectl("get", "nodes", "-o", f"jsonpath={path}") == "True"


if __name__ == "__main__":
    one = Inside(int(sys.argv[1]), has_node="control-plane" not in sys.argv[2:])
    one.start_all()
    one.serve()
