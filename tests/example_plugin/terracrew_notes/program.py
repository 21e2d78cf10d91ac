"""The program of the engine: `plan FILE`, `plan --destroy FILE`, `apply FILE` and `output`. It uses only the standard library.

A module is a file notes.json: {"notes": {name: {"text": …, "fail": …, "pipe": …}}, "outputs": {name: …}}. A note is created by
writing it into the state; one with a pipe waits until the pipe has a line, and one with `fail` cannot be created.
"""

import base64
import json
import os
import signal
import sys
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from typing import Any

LEFTOVER = "notes.leftover"


class Interrupted(Exception):
    """Somebody asked the program to stop."""


def main(command: str, *arguments: str) -> int:
    signal.signal(signal.SIGINT, _interrupt)
    state = _load()
    match command, arguments:
        case "plan", ("--destroy", file):
            return _plan(state, {"notes": {}, "outputs": {}}, file)
        case "plan", (file,):
            try:
                wanted = json.loads(Path("notes.json").read_text())
            except ValueError as error:
                print(f"notes: error: notes.json is not JSON: {error}")
                return 1
            return _plan(state, wanted, file)
        case "apply", (file,):
            return _apply(state, json.loads(Path(file).read_text()))
        case "output", ():
            print(json.dumps(state["outputs"]))
            return 0
        case _:
            print(f"notes: error: there is no command {command}")
            return 2


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise Interrupted


def _plan(state: dict[str, Any], wanted: dict[str, Any], file: str) -> int:
    new = {name: note for name, note in wanted["notes"].items() if name not in state["notes"]}
    old = [name for name in state["notes"] if name not in wanted["notes"]]
    plan = {"create": new, "delete": old, "outputs": wanted.get("outputs", {})}
    Path(file).write_text(json.dumps(plan))
    print(f"{len(new)} notes to create, {len(old)} to delete")
    return 0


def _apply(state: dict[str, Any], plan: dict[str, Any]) -> int:
    try:
        for name, note in plan["create"].items():
            if pipe := note.get("pipe"):
                with open(pipe) as file:
                    file.readline()
            if reason := note.get("fail"):
                print(f"notes: error: {reason}")
                return _save(state) or 1
            state["notes"][name] = note.get("text", "")
            print(f"created {name}", flush=True)
        for name in plan["delete"]:
            del state["notes"][name]
        state["outputs"] = plan["outputs"]
    except Interrupted:
        print("notes: interrupted, saving the state", flush=True)
        return _save(state) or 130
    return _save(state)


def _load() -> dict[str, Any]:
    with _request("GET") as answer:
        content = answer.read()
    return json.loads(content) if content else {"stack": str(uuid.uuid4()), "revision": 0, "notes": {}, "outputs": {}}


def _save(state: dict[str, Any]) -> int:
    state["revision"] += 1
    content = json.dumps(state).encode()
    try:
        _request("POST", content).close()
    except urllib.error.URLError as error:
        Path(LEFTOVER).write_bytes(content)
        print(f"notes: error: the state is kept in {LEFTOVER}: {error}")
        return 1
    return 0


def _request(method: str, content: bytes | None = None) -> Any:
    request = urllib.request.Request(os.environ["NOTES_STATE"], content, method=method)
    credentials = f"{os.environ['NOTES_USER']}:{os.environ['NOTES_PASSWORD']}".encode()
    request.add_header("Authorization", "Basic " + base64.b64encode(credentials).decode())
    return urllib.request.urlopen(request)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
