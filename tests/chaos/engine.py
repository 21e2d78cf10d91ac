"""Simulates OpenTofu: it takes the arguments that the executor uses, uses the same state backend, and records what it did.

It is copied into a folder of its own as an executable called `tofu`, and runs without any package. In a folder without
`chaos.json` it becomes the real engine, after it has recorded which plan that applies. A witness is a line of JSON in a file of
the module, outside the system; while a step changes things the module's file is locked, and the kernel gives that lock back only
when the process is gone.

It treats resources as OpenTofu does: it plans from the state alone, replaces the things that the state names, makes those
that it does not name, and saves its state only after every few things. If it is killed, the things that it made after the
last save exist, and no state names them. The first SIGINT or SIGTERM ends it after the current thing, with a save; the
second one ends it at once, without a save.
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

TIMEOUT_SECONDS = 90.0
"""How long it tries to print while the disk is full; a real engine would lose the line."""
TYPE = "chaos_thing"
SLICE_SECONDS = 0.1
"""How soon it notices a signal while it waits."""


class Interrupted(Exception):
    """A person or the executor asked the engine to stop."""


class Signals:
    """The first signal interrupts at once, but never between the creation of a thing and its record."""

    count = 0
    is_deferred = False
    """Whether the program itself asks if a signal has come."""

    @classmethod
    def receive(cls, *_: object) -> None:
        cls.count += 1
        if cls.count > 1:
            with contextlib.suppress(OSError):
                os.write(1, b"Two interrupts received. Exiting immediately. Note that data loss may have occurred.\n")
            os._exit(1)
        if not cls.is_deferred:
            raise Interrupted

    @classmethod
    def check(cls) -> None:
        if cls.count:
            raise Interrupted

    @classmethod
    def sleep(cls, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            cls.check()
            time.sleep(min(left, SLICE_SECONDS))
        cls.check()


class Witness:
    def __init__(self, module: dict[str, object], plan: str) -> None:
        # engine-files/<job>.<attempt>/provided/plan; the workspace may be that of an earlier attempt
        job, _, attempt = os.path.basename(os.path.dirname(os.path.dirname(plan))).rpartition(".")
        self._who = {"job": job, "attempt": int(attempt), "module": module["name"], "pid": os.getpid()}
        path = os.path.join(str(module["witness"]), f"{module['name']}.jsonl")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def tell(self, what: str, **more: object) -> None:
        line = json.dumps({"what": what, "at": time.monotonic(), **self._who, **more}) + "\n"
        os.write(self._file, line.encode())

    def enter(self) -> None:
        """Take the module's lock, which no other process may hold until this one ends."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.tell("overlap")


def say(text: str) -> None:
    data = f"{text}\n".encode()
    end = time.monotonic() + TIMEOUT_SECONDS
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


def things(state: dict[str, object]) -> dict[str, str]:
    """The id of each thing that a state names."""
    return {one["name"]: one["instances"][0]["attributes"]["id"] for one in state["resources"]}  # type: ignore[attr-defined]


def described(known: dict[str, str]) -> list[dict[str, object]]:
    """The resources of a state with these things."""
    shared = {"mode": "managed", "type": TYPE, "provider": 'provider["chaos.test/chaos/chaos"]'}
    return [
        {**shared, "name": name, "instances": [{"schema_version": 0, "attributes": {"id": number}}]}
        for name, number in sorted(known.items())
    ]


def planned_actions(
    module: dict[str, object], state: dict[str, object], *, is_destroying: bool
) -> list[dict[str, str]]:
    """Plan from the state alone: what the state does not name is created."""
    known = things(state)
    if is_destroying:
        return [{"name": name, "action": "delete", "id": number} for name, number in known.items()]
    wanted = [f"thing-{number}" for number in range(int(module["things"]))]  # type: ignore[call-overload]
    return [
        {"name": name, "action": "replace" if name in known else "create", "id": known.get(name, "")} for name in wanted
    ]


def plan(module: dict[str, object], out: str, *, is_destroying: bool) -> None:
    with locked():
        state = current()
    actions = planned_actions(module, state, is_destroying=is_destroying)
    for number in range(1, 6):
        say(f"plan-line {number}")
    made = {"id": os.urandom(8).hex(), "serial": state["serial"], "lineage": state["lineage"], "actions": actions}
    with open(out, "w") as file:
        json.dump(made, file)


def show(path: str) -> None:
    """Describe a plan as `show -json` does, without attributes."""
    with open(path) as file:
        actions = json.load(file)["actions"]
    shown = {"create": ["create"], "delete": ["delete"], "replace": ["delete", "create"]}
    changes = [
        {"address": f"{TYPE}.{one['name']}", "mode": "managed", "change": {"actions": shown[one["action"]]}}
        for one in actions
    ]
    print(json.dumps({"format_version": "1.2", "resource_changes": changes}))


def apply(module: dict[str, object], path: str) -> int:
    """Print numbered lines, make things and save states for a while; a state that cannot be saved is left in a file."""
    Signals.is_deferred = True
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
        known, actions = things(state), list(planned["actions"])
        lines, saves = int(module["lines"]), int(module["states"])  # type: ignore[call-overload]
        pause, count = float(module["seconds"]) / lines, len(actions)  # type: ignore[arg-type]
        every = max(count // saves, 1)
        try:
            for number in range(1, lines + 1):
                say(f"apply-line {number}")
                printed = number
                Signals.sleep(pause)
                while actions and (count - len(actions) + 1) * lines <= number * count:
                    done = count - len(actions) + 1
                    carry_out(witness, actions.pop(0), known, int(state["serial"]))  # type: ignore[call-overload]
                    if done % every == 0 and done < count:
                        write(witness, state, known, lock, printed)
            write(witness, state, known, lock, printed)
        except Interrupted:
            code = 1
            try:
                say("Interrupt received.")
                write(witness, state, known, lock, printed)
            except OSError:
                leave_behind(witness, state, known, printed)
        except OSError as error:
            leave_behind(witness, state, known, printed)
            with contextlib.suppress(OSError):
                say(f"Error: Failed to save state: {error}")
            code = 1
        witness.tell("end", code=code, printed=printed)
    return code


def carry_out(witness: Witness, action: dict[str, str], known: dict[str, str], serial: int) -> None:
    """One planned action. The witness is the world: a thing exists from its line `made` to its line `destroyed`."""
    name, address = action["name"], f"{TYPE}.{action['name']}"
    if action["action"] != "create":
        say(f"{address}: Destroying... [id={action['id']}]")
        witness.tell("destroyed", resource=name, id=action["id"], known_serial=serial)
        known.pop(name, None)
        say(f"{address}: Destruction complete after 0s")
    if action["action"] != "delete":
        say(f"{address}: Creating...")
        number = os.urandom(8).hex()
        witness.tell("made", resource=name, id=number, known_serial=serial)
        known[name] = number
        say(f"{address}: Creation complete after 0s [id={number}]")


def write(witness: Witness, state: dict[str, object], known: dict[str, str], lock: str, printed: int) -> None:
    """Save one more state. It counts as written when the backend has said so."""
    state["resources"] = described(known)
    state["serial"] = int(state["serial"]) + 1  # type: ignore[call-overload]
    state["lineage"] = state["lineage"] or os.urandom(8).hex()
    state["outputs"] = {"serial": {"value": state["serial"], "type": "number"}}
    state["ballast"] = os.urandom(64).hex()
    content = json.dumps(state).encode()
    ask("POST", content, f"?ID={lock}")
    witness.tell("state", serial=state["serial"], sha256=hashlib.sha256(content).hexdigest(), printed=printed)


def leave_behind(witness: Witness, state: dict[str, object], known: dict[str, str], printed: int) -> None:
    state["resources"] = described(known)
    content = json.dumps(state).encode()
    end = time.monotonic() + TIMEOUT_SECONDS
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


def announce(plan: str) -> None:
    """Record that the real engine applies a plan. That may have nothing to make and nothing to destroy, and leave no other line."""
    with open("witness.json") as file:
        Witness(json.load(file), plan).tell("apply")


def provision(folder: str, name: str, seconds: str) -> int:
    """What a resource of the real engine runs, called by the name `provision`: lines and a witness, no state."""
    witness = Witness({"name": name, "witness": folder}, _plan_above(os.getppid()))
    witness.enter()
    witness.tell("start")
    for number in range(1, 21):
        say(f"apply-line {number}")
        time.sleep(float(seconds) / 20)
    witness.tell("end", printed=20, is_relayed=True)
    return 0


def report_resource(what: str, folder: str, name: str, resource: str, number: str) -> int:
    """What a resource of the real engine runs when it is made or destroyed."""
    Signals.is_deferred = True
    witness = Witness({"name": name, "witness": folder}, _plan_above(os.getppid()))
    Signals.sleep(SLICE_SECONDS)
    witness.tell(what, resource=resource, id=number)
    return 0


def _plan_above(pid: int) -> str:
    """The plan that the engine above this process applies."""
    with open(f"/proc/{pid}/cmdline") as file:
        plans = [one for one in file.read().split("\0") if "/engine-files/" in one]
    if plans:
        return plans[0]
    with open(f"/proc/{pid}/stat") as file:
        return _plan_above(int(file.read().rpartition(")")[2].split()[1]))


def output() -> None:
    state = current()
    print(json.dumps({"serial": {"value": state["serial"], "type": "number", "sensitive": False}}))


def main(arguments: list[str]) -> int:
    if os.path.basename(sys.argv[0]) == "provision":
        return report_resource(*arguments) if arguments[0] in ("made", "destroyed") else provision(*arguments)
    if arguments[0] == "version":
        print(json.dumps({"terraform_version": os.environ.get("CHAOS_VERSION", "1.12.6")}))
        return 0
    try:
        with open("chaos.json") as file:
            module = json.load(file)
    except FileNotFoundError:
        if arguments[0] == "apply":
            announce(arguments[-1])
        os.execv(os.environ["CHAOS_TOFU"], [os.environ["CHAOS_TOFU"], *arguments])
    match arguments[0]:
        case "init" | "validate":
            say(f"{arguments[0]}-line 1")
        case "plan":
            option = {name: value for name, _, value in (one.partition("=") for one in arguments[1:])}
            plan(module, option["-out"], is_destroying="-destroy" in arguments)
        case "show":
            show(arguments[-1])
        case "apply":
            return apply(module, arguments[-1])
        case "output":
            output()
        case other:
            say(f"Error: the stand-in does not know {other}")
            return 1
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, Signals.receive)
    try:
        sys.exit(main(sys.argv[1:]))
    except Interrupted:
        sys.exit(130)
