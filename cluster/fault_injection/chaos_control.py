"""The control listener of one process: fault injection from inside, if its configuration opens it.

One JSON object per line, each with a response line; the first has the token, or the connection is closed.

    {"token": "..."}                                                  -> {"ok": true, "role": "broker", "node_id": 1}
    {"do": "inject", "action": "error", "api": "PRODUCE", "code": "NOT_ENOUGH_REPLICAS", "count": 3}
    {"do": "inject", "action": "delay", "api": 1, "delay_ms": 500, "client_id": "slow"}
    {"do": "inject", "action": "drop", "api": "METADATA", "silent": true, "handled": false, "listener": "CLIENTS"}
                                                                      -> {"ok": true, "id": 4}
    {"do": "withdraw", "id": 4}     {"do": "clear"}                   rules; clear: everything else too
    {"do": "refuse", "listener": "CLIENTS", "cut": false}             the address is closed, the process runs
    {"do": "accept", "listener": "CLIENTS"}                           the same port again
    {"do": "failpoints", "arm": "log.append.after=kill@3"}            replaces those armed before; "": none
    {"do": "slow", "arm": "log.flush.sync.before=delay:50"}           a slow disk, in addition; "": end
    {"do": "state"}                                                   -> the whole state

A command that cannot be executed returns {"ok": false, "error": "..."}. Loopback only. Browsers cannot use it:
their first line is not JSON.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Final, TypeAlias

import msgspec

from kvorum.cluster.fault_injection.injection import Action, Injection, NoSuchListener, Rule, TooManyRules
from kvorum.cluster.http.stream_server import StreamServer
from kvorum.cluster.process.exits import Exit
from kvorum.cluster.process.hosting import Refusal
from kvorum.protocol.api import ApiKey
from kvorum.protocol.errors import ErrorCode
from kvorum.runtime import failpoints
from kvorum.runtime.config import ConfigError, Settings
from kvorum.runtime.config_checks import CHAOS_TOKEN_LENGTH_MIN
from kvorum.runtime.config_relations import refuse
from kvorum.runtime.disk import Disk, OsDisk
from kvorum.runtime.listeners import HttpEndpoint, chaos_listener
from kvorum.runtime.logs import get_logger

log = get_logger("chaos")

LINE_BYTES_MAX: Final = 16 * 1024
CONNECTIONS_MAX: Final = 16
"""One more is closed at once."""
TOKEN_SECONDS: Final = 5.0
"""Within which the token has to come."""
DELAY_MS_MAX: Final = 600_000
COUNT_MAX: Final = 1_000_000_000

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]
Delay: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=DELAY_MS_MAX)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=1024)]


class Greeting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line."""

    token: str


class Command(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag=str.lower):
    """A command; its class name is its word."""


class Inject(Command, frozen=True):
    """Add a rule."""

    action: Action
    api: int | Text
    count: Count | None = None
    client_id: Text | None = None
    listener: Text | None = None
    code: int | Text = 0
    at_top: bool = False
    delay_ms: Delay = 0
    silent: bool = False
    handled: bool = False


class Withdraw(Command, frozen=True):
    """Remove a rule."""

    id: int


class Clear(Command, frozen=True):
    """Remove everything."""


class Refuse(Command, frozen=True):
    """Close a listener's address."""

    listener: Text
    cut: bool = False


class Accept(Command, frozen=True):
    """Open it again."""

    listener: Text


class Failpoints(Command, frozen=True):
    """Arm failpoints."""

    arm: Text


class Slow(Command, frozen=True):
    """Delay file operations at given failpoints."""

    arm: Text


class State(Command, frozen=True):
    """Return the faults in force."""


Commands: TypeAlias = Inject | Withdraw | Clear | Refuse | Accept | Failpoints | Slow | State
Answer: TypeAlias = dict[str, object]


class CommandError(Exception):
    """The command is not possible, with the reason."""


class ChaosControl:
    """Serves one process's control listener. `start` once, `close` once or more."""

    def __init__(self, endpoint: HttpEndpoint, token: str, injection: Injection, role: str, node_id: int) -> None:
        """Prepare; nothing is opened yet."""
        assert len(token) >= CHAOS_TOKEN_LENGTH_MIN, "the configuration was checked"
        self._endpoint = endpoint
        self._token = token.encode()
        self._injection = injection
        self._identity: Answer = {"role": role, "node_id": node_id}
        self._armed = self._slow = ""
        self._server = StreamServer(self._serve, connections_max=CONNECTIONS_MAX, line_bytes_max=LINE_BYTES_MAX)

    async def start(self) -> int:
        """Listen; return the port. Raises OSError."""
        endpoint = self._endpoint
        port = await self._server.start(endpoint.host, endpoint.port)
        log.warning("fault injection enabled", host=endpoint.host, port=port)
        return port

    async def close(self) -> None:
        """Stop listening, end every connection, take all rules back. Idempotent."""
        self._injection.clear()
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Check the token, then execute each line."""
        try:
            async with asyncio.timeout(TOKEN_SECONDS):
                first = await reader.readline()
            if not self._knows_token(first):
                await _send(writer, {"ok": False, "error": "the first line must have the token"})
                return
            await _send(writer, {"ok": True, **self._identity})
            while line := await reader.readline():
                await _send(writer, await self._answer(line))
        except (OSError, TimeoutError, ValueError) as error:  # ValueError: a line longer than the limit
            log.debug("control connection ended", reason=repr(error))

    def _knows_token(self, line: bytes) -> bool:
        try:
            said = msgspec.json.decode(line, type=Greeting).token
        except msgspec.DecodeError:  # ValidationError is one
            return False
        return hmac.compare_digest(said.encode(), self._token)

    async def _answer(self, line: bytes) -> Answer:
        try:
            command = msgspec.json.decode(line, type=Commands)
            return {"ok": True, **await self._do(command)}
        except (msgspec.DecodeError, CommandError, TooManyRules, NoSuchListener, OSError) as error:
            return {"ok": False, "error": str(error)}

    async def _do(self, command: Commands) -> Answer:
        """Execute a command; return the response. Raises CommandError, TooManyRules, NoSuchListener, OSError."""
        injection = self._injection
        match command:
            case Inject():
                return {"id": injection.add(rule_of(command))}
            case Withdraw():
                return {"was_in_force": injection.withdraw(command.id)}
            case Clear():
                injection.clear()
                self._arm("")
                self._slow_down("")
                for listener in injection.listeners.values():
                    await listener.accept()
            case Refuse():
                injection.listener(command.listener).refuse(cut=command.cut)
            case Accept():
                await injection.listener(command.listener).accept()
            case Failpoints():
                self._arm(command.arm)
            case Slow():
                self._slow_down(command.arm)
            case State():
                return self._state()
        return {}

    def _arm(self, text: str) -> None:
        try:
            failpoints.arm(text)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self._armed = text
        if text:
            log.warning("failpoints armed", arm=text)

    def _slow_down(self, text: str) -> None:
        try:
            failpoints.slow(text)
        except ValueError as error:
            raise CommandError(str(error)) from error
        self._slow = text
        if text:
            log.warning("disk delay injected", arm=text)

    def _state(self) -> Answer:
        injection = self._injection
        rules = [
            {
                "id": rule_id,
                "action": rule.action,
                "api": ApiKey(rule.api_key).name,
                "remaining": rule.remaining,
                "client_id": rule.client_id,
                "listener": rule.listener,
                "code": rule.code.name,
                "delay_ms": rule.delay_ms,
                "silent": rule.silent,
                "handled": rule.handled,
                "hits": rule.hits,
            }
            for rule_id, rule in injection.rules.items()
        ]
        listeners = {
            name: {"port": each.port, "refusing": each.is_refusing, "connections": each.connection_count}
            for name, each in injection.listeners.items()
        }
        state = {"rules": rules, "listeners": listeners, "failpoints": self._armed, "silent": injection.silent}
        return {**self._identity, **state, "slow": self._slow}


def rule_of(command: Inject) -> Rule:
    """Return the rule of a command. Raises CommandError."""
    api_key = _api_of(command.api)
    code = _code_of(command.code)
    if command.action == "error" and code is ErrorCode.NONE:
        raise CommandError("an error requires a code: Kafka's name, such as NOT_LEADER_OR_FOLLOWER, or its number")
    if command.action == "delay" and command.delay_ms == 0:
        raise CommandError("a delay requires delay_ms")
    return Rule(
        action=command.action,
        api_key=api_key,
        remaining=command.count,
        client_id=command.client_id,
        listener=command.listener,
        code=code,
        at_top=command.at_top,
        delay_ms=command.delay_ms,
        silent=command.silent,
        handled=command.handled,
    )


def _api_of(api: int | str) -> int:
    """Return an API's key from its number or name, as PRODUCE or CreateTopics. Raises CommandError."""
    if isinstance(api, int):
        if api in {int(each) for each in ApiKey}:
            return api
    else:
        wanted = api.replace("_", "").lower()
        for each in ApiKey:
            if each.name.replace("_", "").lower() == wanted:
                return int(each)
    raise CommandError(f"unknown API {api!r}")


def _code_of(code: int | str) -> ErrorCode:
    """Return an error code from its number or name. Raises CommandError."""
    try:
        return ErrorCode(code) if isinstance(code, int) else ErrorCode[code]
    except (ValueError, KeyError):
        raise CommandError(f"unknown error code {code!r}") from None


async def _send(writer: asyncio.StreamWriter, answer: Answer) -> None:
    writer.write(msgspec.json.encode(answer) + b"\n")
    await writer.drain()


def token_of(settings: Settings, disk: Disk) -> str:
    """Return the configured token. Raises ConfigError: an unreadable file, or too short a token."""
    token = settings.optional_str("kvorum.chaos.token")
    if token is not None:
        return token
    path = settings.str("kvorum.chaos.token.file")
    try:
        token = disk.read(path).decode(errors="replace").partition("\n")[0].strip()
    except OSError as error:
        raise refuse(settings, "kvorum.chaos.token.file", str(error)) from error
    if len(token) < CHAOS_TOKEN_LENGTH_MIN:
        raise refuse(
            settings, "kvorum.chaos.token.file", f"a token must have at least {CHAOS_TOKEN_LENGTH_MIN} characters"
        )
    return token


@asynccontextmanager
async def serve_control(settings: Settings, role: str) -> AsyncIterator[Injection]:
    """Serve the control listener of this process meanwhile. Raises Refusal (its token), OSError."""
    endpoint = chaos_listener(settings, role)
    assert endpoint is not None, "who has none does not ask"
    injection = Injection()
    try:
        token = token_of(settings, OsDisk())
    except ConfigError as error:
        raise Refusal(Exit.CONFIG, str(error)) from error
    control = ChaosControl(endpoint, token, injection, role, settings.int("node.id"))
    await control.start()
    try:
        yield injection
    finally:
        await control.close()
