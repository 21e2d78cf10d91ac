"""A stand-in for OpenTofu: the arguments that the executor uses, the same state backend, and a witness of what it did.

It is copied into a folder of its own as an executable called `tofu`, and runs without any package. In a folder without
`chaos.json` it becomes the real engine. A witness is a line of JSON in a file of the module, outside the system; while
a step changes things the module's file is locked, and the kernel gives that lock back only when the process is gone.
"""

import base64
import contextlib
import errno
import fcntl
import hashlib
import json
import os
import signal
import socket
import sys
import time

PLAN_FACTS = (
    {"type": "planned_change", "change": {"resource": {"addr": "chaos.thing"}, "action": "update"}},
    {"type": "change_summary", "changes": {"add": 0, "change": 1, "remove": 0}},
)
PATIENCE = 90.0
"""How long it tries to print while the disk is full; a real engine would lose the line."""


class Interrupted(Exception):
    """The person or the executor wants it to stop."""


class Witness:
    def __init__(self, module: dict[str, object], plan: str) -> None:
        # attempts/<job>.<attempt>/plan; the workspace may be that of an earlier attempt
        job, _, attempt = os.path.basename(os.path.dirname(plan)).rpartition(".")
        self._who = {"job": job, "attempt": int(attempt), "module": module["name"], "pid": os.getpid()}
        path = os.path.join(str(module["witness"]), f"{module['name']}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def tell(self, what: str, **more: object) -> None:
        line = json.dumps({"what": what, "at": time.monotonic(), **self._who, **more}) + "\n"
        os.write(self._file, line.encode())

    def enter(self) -> None:
        """From here to its end no other process may be in this section for the same module."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.tell("overlap")


def say(text: str) -> None:
    data = f"{text}\n".encode()
    end = time.monotonic() + PATIENCE
    while data:
        try:
            data = data[os.write(1, data) :]
        except OSError as error:
            if error.errno != errno.ENOSPC or time.monotonic() > end:
                raise
            time.sleep(0.2)


def ask(method: str, body: bytes = b"", query: str = "") -> bytes:
    """One request to the state backend; anything but success is an error."""
    address = os.environ["TF_HTTP_ADDRESS"].removeprefix("http://")
    host, _, path = address.partition("/")
    name, _, port = host.partition(":")
    secret = base64.b64encode(f"{os.environ['TF_HTTP_USERNAME']}:{os.environ['TF_HTTP_PASSWORD']}".encode()).decode()
    head = f"{method} /{path}{query} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Basic {secret}\r\n"
    with socket.create_connection((name, int(port)), timeout=120) as link:
        link.sendall(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b""
        while piece := link.recv(1 << 16):
            answer += piece
    top, _, content = answer.partition(b"\r\n\r\n")
    if not top.startswith(b"HTTP/1.1 20"):
        raise OSError(f"the state backend answered {answer[:300]!r}")
    return content


def current() -> dict[str, object]:
    found = ask("GET")
    return json.loads(found) if found else {"version": 4, "serial": 0, "lineage": "", "outputs": {}, "resources": []}


@contextlib.contextmanager
def locked():
    name = {"ID": f"{os.getpid()}-{time.monotonic_ns()}"}
    ask("LOCK", json.dumps(name).encode())
    yield str(name["ID"])
    with contextlib.suppress(OSError):
        ask("UNLOCK", json.dumps(name).encode())


def plan(out: str, facts: str) -> None:
    with locked():
        state = current()
    for number in range(1, 6):
        say(f"plan-line {number}")
    with open(facts, "w") as file:
        file.writelines(json.dumps(fact) + "\n" for fact in PLAN_FACTS)
    with open(out, "w") as file:
        json.dump({"id": os.urandom(8).hex(), "serial": state["serial"], "lineage": state["lineage"]}, file)


def apply(module: dict[str, object], path: str) -> int:
    """Print numbered lines and write states for a while; a state that cannot be handed over is left in a file."""
    with open(path) as file:
        planned = json.load(file)
    witness = Witness(module, path)
    with locked() as lock:
        state = current()
        if (state["serial"], state["lineage"]) != (planned["serial"], planned["lineage"]):
            say("Error: Saved plan is stale")
            return 1
        witness.enter()
        witness.tell("start", base=state["serial"], lineage=state["lineage"], plan=planned["id"])
        code, printed = 0, 0
        lines, writes = int(module["lines"]), int(module["states"])  # type: ignore[call-overload]
        pause = float(module["seconds"]) / lines  # type: ignore[arg-type]
        try:
            for number in range(1, lines + 1):
                say(f"apply-line {number}")
                printed = number
                time.sleep(pause)
                if number % max(lines // writes, 1) == 0 or number == lines:
                    write(witness, state, lock, printed)
        except Interrupted:
            code = 1
            say("Interrupt received.")
            try:
                write(witness, state, lock, printed)
            except OSError:
                leave_behind(witness, state, printed)
        except OSError as error:
            leave_behind(witness, state, printed)
            with contextlib.suppress(OSError):
                say(f"Error: Failed to save state: {error}")
            code = 1
        witness.tell("end", code=code, printed=printed)
    return code


def write(witness: Witness, state: dict[str, object], lock: str, printed: int) -> None:
    """One more state. It counts as written when the backend has said so."""
    state["serial"] = int(state["serial"]) + 1  # type: ignore[call-overload]
    state["lineage"] = state["lineage"] or os.urandom(8).hex()
    state["outputs"] = {"serial": {"value": state["serial"], "type": "number"}}
    state["ballast"] = os.urandom(64).hex()
    content = json.dumps(state).encode()
    ask("POST", content, f"?ID={lock}")
    witness.tell("state", serial=state["serial"], sha256=hashlib.sha256(content).hexdigest(), printed=printed)


def leave_behind(witness: Witness, state: dict[str, object], printed: int) -> None:
    content = json.dumps(state).encode()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            with open("errored.tfstate", "wb") as file:
                file.write(content)
            break
        except OSError:
            time.sleep(0.2)
    else:
        return
    witness.tell("errored", serial=state["serial"], sha256=hashlib.sha256(content).hexdigest(), printed=printed)


def provision(folder: str, name: str, seconds: str) -> int:
    """What a resource of the real engine runs, called by the name `provision`: lines and a witness, no state."""
    witness = Witness({"name": name, "witness": folder}, _plan_above(os.getppid()))
    witness.enter()
    witness.tell("start")
    for number in range(1, 21):
        say(f"apply-line {number}")
        time.sleep(float(seconds) / 20)
    witness.tell("end", printed=20)
    return 0


def _plan_above(pid: int) -> str:
    """The plan that the engine above this process applies."""
    with open(f"/proc/{pid}/cmdline") as file:
        plans = [one for one in file.read().split("\0") if "/attempts/" in one]
    if plans:
        return plans[0]
    with open(f"/proc/{pid}/stat") as file:
        return _plan_above(int(file.read().rpartition(")")[2].split()[1]))


def output() -> None:
    state = current()
    print(json.dumps({"serial": {"value": state["serial"], "type": "number", "sensitive": False}}))


def main(arguments: list[str]) -> int:
    if os.path.basename(sys.argv[0]) == "provision":
        return provision(*arguments)
    if arguments[0] == "version":
        print(json.dumps({"terraform_version": os.environ.get("CHAOS_VERSION", "1.12.6")}))
        return 0
    try:
        with open("chaos.json") as file:
            module = json.load(file)
    except FileNotFoundError:
        os.execv(os.environ["CHAOS_TOFU"], [os.environ["CHAOS_TOFU"], *arguments])
    match arguments[0]:
        case "init" | "validate":
            say(f"{arguments[0]}-line 1")
        case "plan":
            option = {name: value for name, _, value in (one.partition("=") for one in arguments[1:])}
            plan(option["-out"], option["-json-into"])
        case "apply":
            return apply(module, arguments[-1])
        case "output":
            output()
        case other:
            say(f"Error: the stand-in does not know {other}")
            return 1
    return 0


def interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, interrupt)
    try:
        sys.exit(main(sys.argv[1:]))
    except Interrupted:
        sys.exit(130)
