"""Runs Open Policy Agent: checks Rego when it is saved, and evaluates it for plans. One process for each call, with bounds.

It has no network: every built-in function whose result depends on anything but its arguments is removed from what it may use. A policy
that calls one of them, or one that does not exist, is refused when it is saved and cannot be evaluated.
"""

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from terracrew.api.jobs import plain
from terracrew.api.policies import PolicyMessage, PolicyVerdict
from terracrew.errors import Invalid, ProgramFailed, Unavailable
from terracrew.server.policies.turns import Turns
from terracrew.system import bounded_program
from terracrew.system.bounded_program import ProgramBounds, ProgramEnd
from terracrew.toolchains import discovery, specs

CHECK_SECONDS = 10.0
EVALUATION_SECONDS = 10.0
"""How long the evaluation of one plan may take."""
MAX_MEMORY_BYTES = 5 << 29
"""Of address space. Go reserves 1.3 GB of it and uses the rest: a plan of 34 MB needs 0.5 GB."""
MAX_RESULT_BYTES = 8 << 20
MAX_MESSAGES = 100
"""How many messages of a policy are kept for each plan."""
MAX_MESSAGE_CHARACTERS = 500
MAX_TURNS = 2
"""How many evaluations for permissions to apply run at a time."""
WAIT_SECONDS = 20.0
"""How long one waits for its turn."""
_MAX_BACKGROUND_TURNS = 1
_QUERY = """{
    "deny": {i: found | some i, one in input; found := data.terracrew.deny with input as one},
    "warn": {i: found | some i, one in input; found := data.terracrew.warn with input as one},
}"""
_OF_THE_WORLD = frozenset(
    {
        "crypto.x509.parse_and_verify_certificates",
        "crypto.x509.parse_and_verify_certificates_with_options",
        "http.send",
        "io.jwt.decode_verify",
        "json.match_schema",
        "json.verify_schema",
        "net.lookup_ip_addr",
        "opa.runtime",
        "rand.intn",
        "time.now_ns",
        "trace",
        "uuid.rfc4122",
    }
)
"""Functions whose result depends on more than their arguments. The program marks most of them, newer versions more of them: schemas
read files of the server and its network, and certificates and tokens ask for the time."""
_ANNOTATION = re.compile(r"#\s*METADATA")
"""An annotation may have a schema, which reads any file of the server and quotes it in messages."""
_RULES = ("deny", "warn")
_POLICY = "policy.rego"
_FILES = (_POLICY, "capabilities.json", "schema.json", "input.json")
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {name: {} for name in ("cost", "inputs", "job", "module", "plan", "runner", "source", "time")},
    "additionalProperties": False,
}
"""With it, a misspelled part of the input is an error, and not a rule that never denies anything."""


class OpaBusy(Unavailable):
    """Others are evaluated at this moment, or the disk is full: that says nothing about the policy, and passes."""


class PolicyOutcome(msgspec.Struct, frozen=True):
    """What a policy says about one input."""

    verdict: PolicyVerdict
    messages: list[PolicyMessage] = []


class _Location(msgspec.Struct):
    row: int = 0
    col: int = 0
    file: str = ""


class _OpaError(msgspec.Struct):
    message: str = ""
    code: str = ""
    location: _Location | None = None


class _Errors(msgspec.Struct):
    errors: list[_OpaError] = []


class _Said(msgspec.Struct):
    deny: dict[str, Any] = {}
    warn: dict[str, Any] = {}


class _Expression(msgspec.Struct):
    value: _Said


class _Answer(msgspec.Struct):
    expressions: list[_Expression]


class _Evaluated(msgspec.Struct):
    result: list[_Answer] = []
    errors: list[_OpaError] = []


class _BuiltIn(msgspec.Struct):
    name: str
    nondeterministic: bool = False


_errors = msgspec.json.Decoder(_Errors)
_evaluated = msgspec.json.Decoder(_Evaluated)


class Opa:
    """The program on this server, and its turns. Where it is missing, nothing passes a policy that is mandatory.

    What people try and save has a turn of its own: a permission to apply does not wait for it. Organizations take turns.
    """

    def __init__(self, extra_paths: Sequence[str] = (), *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._extra_paths = extra_paths
        self._turns, self._background = Turns(MAX_TURNS, wait_seconds), Turns(_MAX_BACKGROUND_TURNS, wait_seconds)
        self._capabilities: tuple[str, bytes] = "", b""

    async def check(self, rego: str, organization_id: str = "") -> None:
        """Raise Invalid, with line and column, unless this is a policy that can be evaluated."""
        _check_annotations(rego)
        with tempfile.TemporaryDirectory(prefix="terracrew-policy-") as name:
            folder = Path(name)
            program = await self._place(folder, rego)
            (folder / "schema.json").write_bytes(msgspec.json.encode(_SCHEMA))
            try:
                await self._check(folder, program, organization_id)
            except ProgramFailed as error:  # deeply nested Rego ends it
                raise Invalid.in_field("rego", error.message[:MAX_MESSAGE_CHARACTERS]) from None

    async def _check(self, folder: Path, program: str, organization_id: str) -> None:
        async with _turn(self._background, organization_id):
            parsed = await self._run(folder, [program, "parse", "--format", "json", _POLICY], CHECK_SECONDS)
            if parsed.code:
                raise _refused(parsed.stderr)
            await asyncio.to_thread(_check_rules, parsed.stdout)
            command = [program, "check", "--format", "json", "--capabilities", "capabilities.json"]
            checked = await self._run(folder, [*command, "--schema", "schema.json", _POLICY], CHECK_SECONDS)
            if checked.code:
                raise _refused(checked.stdout or checked.stderr)

    async def evaluate(
        self,
        rego: str,
        inputs: Sequence[bytes],
        seconds: float = 0.0,
        *,
        organization_id: str = "",
        is_background: bool = False,
    ) -> list[PolicyOutcome]:
        """Return what the policy says about each input, which is JSON. One that cannot be evaluated has the verdict `failed`.

        If one of many cannot be evaluated, each is evaluated alone, within `seconds` altogether. Raises OpaBusy if it was not
        evaluated because others are, and Unavailable without the program.
        """
        if not inputs:
            return []
        try:
            async with _turn(self._background if is_background else self._turns, organization_id):
                until = asyncio.get_running_loop().time() + (seconds or EVALUATION_SECONDS)
                return await self._evaluate_all(rego, inputs, until)
        except OSError as error:
            raise OpaBusy(f"the server cannot evaluate policies at this moment: {error.strerror or error}") from None

    async def _evaluate_all(self, rego: str, inputs: Sequence[bytes], until: float) -> list[PolicyOutcome]:
        try:
            _check_annotations(rego)
            return await self._evaluate(rego, inputs, until)
        except (Invalid, ProgramFailed) as error:
            if len(inputs) == 1:
                return [PolicyOutcome("failed", [PolicyMessage("error", plain(error.message)[:2000])])]
        half = len(inputs) // 2
        return [
            *await self._evaluate_all(rego, inputs[:half], until),
            *await self._evaluate_all(rego, inputs[half:], until),
        ]

    async def _evaluate(self, rego: str, inputs: Sequence[bytes], until: float) -> list[PolicyOutcome]:
        with tempfile.TemporaryDirectory(prefix="terracrew-policy-") as name:
            folder = Path(name)
            program = await self._place(folder, rego)
            await asyncio.to_thread(_write_inputs, folder / "input.json", inputs)
            command = [program, "eval", "--format", "json", "--capabilities", "capabilities.json"]
            command += ["--strict-builtin-errors", "--data", _POLICY, "--input", "input.json", _QUERY]
            left = until - asyncio.get_running_loop().time()
            ended = await self._run(folder, command, max(left, 0.1))
        return await asyncio.to_thread(_outcomes, ended, len(inputs))

    async def _place(self, folder: Path, rego: str) -> str:
        """Write what each run needs, and return the path of the program."""
        program = await self.program()
        (folder / _POLICY).write_bytes(rego.encode())
        if self._capabilities[0] != program:
            printed = await self._run(folder, [program, "capabilities", "--current"], CHECK_SECONDS)
            self._capabilities = program, _without_the_world(printed.stdout)
        (folder / "capabilities.json").write_bytes(self._capabilities[1])
        return program

    async def program(self) -> str:
        """Return the path of the program; raises Unavailable if there is none that can be used."""
        return await asyncio.to_thread(self._find)

    def _find(self) -> str:
        found = discovery.find(specs.OPA.name, self._extra_paths)
        if found is None:
            raise Unavailable(
                "Open Policy Agent is not installed on the server, so policies cannot be evaluated. Its operator installs it by"
                " `terracrew engine install opa`"
            )
        if specs.is_too_old(specs.OPA, found.version):
            raise Unavailable(f"opa {found.version} at {found.path} on the server is too old: 1.0 or later is needed")
        return found.path

    async def _run(self, folder: Path, command: Sequence[str], seconds: float) -> ProgramEnd:
        # A program has no working directory of its own here, so the paths of files are made absolute.
        arguments = [str(folder / each) if each in _FILES else each for each in command]
        try:
            return await bounded_program.run_to_end(
                arguments,
                purpose="the policy checker",
                bounds=ProgramBounds(round(seconds, 1), MAX_RESULT_BYTES, MAX_MEMORY_BYTES),
                environment={"HOME": str(folder), "GOMEMLIMIT": "1GiB", "GOMAXPROCS": str(MAX_TURNS)},
            )
        except ProgramFailed as error:
            raise ProgramFailed(error.message.replace(arguments[0], "opa")) from None


@contextlib.asynccontextmanager
async def _turn(turns: Turns, organization_id: str) -> AsyncGenerator[None]:
    async with contextlib.AsyncExitStack() as held:
        try:
            await held.enter_async_context(turns.turn(organization_id))
        except TimeoutError:
            raise OpaBusy("the server evaluates other policies at this moment: try again") from None
        yield


def _write_inputs(path: Path, inputs: Sequence[bytes]) -> None:
    with path.open("wb") as file:
        for index, each in enumerate(inputs):
            file.write(b"[" if index == 0 else b",")
            file.write(each)
        file.write(b"]")


def _without_the_world(printed: bytes) -> bytes:
    """Return the capabilities of the program without the functions that ask the network, the machine, a clock or chance."""
    try:
        found = msgspec.json.decode(printed, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise ProgramFailed("opa does not say which functions it has") from None
    decoded = msgspec.convert(found.get("builtins", []), list[_BuiltIn])
    removed = {each.name for each in decoded if each.nondeterministic} | _OF_THE_WORLD
    kept = [each for each in found.get("builtins", []) if each["name"] not in removed]
    return msgspec.json.encode(found | {"builtins": kept, "allow_net": []})


def _check_annotations(rego: str) -> None:
    if found := _ANNOTATION.search(rego):
        line = rego.count("\n", 0, found.start()) + 1
        raise Invalid.in_field("rego", f"line {line}: annotations (`# METADATA`) are not allowed in a policy")


def _check_rules(printed: bytes) -> None:
    """Raise Invalid unless this is a module of the package `terracrew` whose rules are sets of messages, and that reads nothing else."""
    try:
        parsed: Any = msgspec.json.decode(printed)
    except (msgspec.MsgspecError, RecursionError):
        raise Invalid.in_field("rego", "it is nested too deeply to be checked") from None
    package = [each.get("value") for each in parsed.get("package", {}).get("path", [])]
    if package != ["data", "terracrew"]:
        raise Invalid.in_field("rego", "a policy is in the package `terracrew`: its first line is `package terracrew`")
    found = False
    for rule in parsed.get("rules", []):
        head = rule.get("head", {})
        name = head.get("name") or next((each.get("value") for each in head.get("ref", [])), "")
        if name in _RULES:
            found = True
            if "key" not in head or "value" in head or len(head.get("ref", [])) > 1:
                raise Invalid.in_field(
                    "rego", f"`{name}` is a set of messages: write `{name} contains message if {{ … }}`"
                )
    if not found:
        raise Invalid.in_field("rego", "there is no rule `deny contains message if { … }` and none for `warn`")
    if other := _foreign(parsed):
        raise Invalid.in_field(
            "rego",
            f"`data.{other}` is not known here: a policy is one file, and reads only `input` and its own package",
        )


def _foreign(parsed: Any) -> str:
    """Return the name of other data than that of its own package that the module refers to, or ''."""
    left: list[Any] = [parsed]
    while left:  # no recursion, because people choose how deep it is
        node = left.pop()
        if isinstance(node, dict):
            known = cast("dict[str, Any]", node)
            value = known.get("value")
            if known.get("type") == "ref" and isinstance(value, list):
                parts = [each.get("value") for each in cast("list[dict[str, Any]]", value)]
                if parts[:1] == ["data"] and parts[1:2] != ["terracrew"]:
                    return parts[1] if len(parts) > 1 and isinstance(parts[1], str) else "…"
            left += known.values()
        elif isinstance(node, list):
            left += cast("list[Any]", node)
    return ""


def _refused(printed: bytes) -> Invalid:
    try:
        found = _errors.decode(printed).errors
    except (msgspec.MsgspecError, RecursionError):
        found = []
    words = "; ".join(map(_in_words, found[:10])) or plain(printed.decode(errors="replace"))[:1000]
    return Invalid.in_field("rego", words or "opa refuses it")


def _in_words(error: _OpaError) -> str:
    text = plain(error.message)[:MAX_MESSAGE_CHARACTERS]
    if error.location is None or not error.location.row:
        return text
    return f"line {error.location.row}, column {error.location.col}: {text}"


def _outcomes(ended: ProgramEnd, count: int) -> list[PolicyOutcome]:
    """Return what it has printed about each input. Raises Invalid if that is no answer."""
    if ended.code and not ended.stdout:  # its own errors are JSON, too
        raise Invalid("opa has crashed: the policy needs more memory than it may use")
    try:
        found = _evaluated.decode(ended.stdout)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise Invalid(f"opa ended with exit status {ended.code}, and what it printed cannot be read: {error}") from None
    if found.errors:
        raise Invalid("; ".join(map(_in_words, found.errors[:5])))
    if ended.code or not found.result:
        raise Invalid(f"opa ended with exit status {ended.code} and no result")
    said = found.result[0].expressions[0].value
    return [_outcome(said.deny.get(str(i)), said.warn.get(str(i))) for i in range(count)]


def _outcome(deny: Any, warn: Any) -> PolicyOutcome:
    messages: list[PolicyMessage] = []
    for kind, found in (("deny", deny), ("warn", warn)):
        if found is None:
            continue
        if not isinstance(found, list):
            return PolicyOutcome("failed", [PolicyMessage("error", f"`{kind}` is not a set of messages")])
        texts = cast("list[Any]", found)[: MAX_MESSAGES - len(messages)]
        messages += [PolicyMessage("deny" if kind == "deny" else "warn", _text(each)) for each in texts]
    if deny is None and warn is None:
        return PolicyOutcome("failed", [PolicyMessage("error", "neither `deny` nor `warn` has a value")])
    verdict: PolicyVerdict = "denied" if deny else "warned" if warn else "passed"
    return PolicyOutcome(verdict, messages)


def _text(message: Any) -> str:
    if isinstance(message, dict):
        known = cast("dict[str, Any]", message)
        message = known.get("msg", known)
    text = message if isinstance(message, str) else msgspec.json.encode(message).decode()
    return plain(text[:MAX_MESSAGE_CHARACTERS])[:MAX_MESSAGE_CHARACTERS]
