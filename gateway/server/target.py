"""What a turn is sent to: the one model server, with what is known of its dialect and its profile."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import msgspec

from gateway.config import Config
from gateway.errors import UpstreamError
from gateway.server.watching import NOBODY, Watching
from gateway.tools.names import NameRule
from gateway.tools.options import ToolOptions
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from gateway.upstream.client import Answer, UpstreamClient
from gateway.upstream.dialect import make_dialect
from gateway.upstream.errors import read_error
from gateway.upstream.probe import UNREACHABLE, Found, Prober
from gateway.upstream.profiles import Profile, load_profile

log = logging.getLogger(__name__)


class Target:
    """One model server as it was found.

    Args:
        config: all settings.
        client: its connections.
        found: what the probe has said.
    """

    def __init__(self, config: Config, client: UpstreamClient, found: Found) -> None:
        self.found = found
        self.profile = profile_of(config, found)
        self.dialect = make_dialect(self.profile)
        self.host = client.host
        self._client = client
        self._models = config.upstream.model
        self._tools = _tool_options(config, self.profile)
        # A server that has refused the pattern of a grammar is not asked for it again (until it is another server).
        self._is_constraining = self._tools.pattern
        # One slot is one answer (Q63: a server with a single KV cache answers 409 to a second one).
        concurrency = self.profile.concurrency
        self._slots = asyncio.Semaphore(concurrency) if concurrency else None

    def turn_options(self, model: str) -> TurnOptions:
        """What the turn has to know about this server."""
        return TurnOptions(tools=self.tool_options, model=self._models.get(model, model))

    @property
    def tool_options(self) -> ToolOptions:
        """What the tools have to know about it."""
        if self._is_constraining == self._tools.pattern:
            return self._tools
        return msgspec.structs.replace(self._tools, pattern=False)

    async def ask(self, turn: Turn, body: bytes, watch: Watching = NOBODY) -> Answer:
        """Open; once more without the patterns of grammars when the server may have refused these.

        Raises:
            UpstreamError: it refuses the request.
        """
        try:
            return await self.open(body, watch)
        except UpstreamError as error:
            plain = turn.unconstrained_request() if _may_be_the_pattern(error) else None
            if plain is None:
                raise
            answer = await self.open(self.dialect.encode(plain), watch)
            log.warning("the model server takes no pattern; grammars are only checked: %s", error)
            self._is_constraining = False
            return answer

    def slot(self) -> AbstractAsyncContextManager[None]:
        """The context in which one answer is asked for and read."""
        return self._slots or nullcontext()

    async def open(self, body: bytes, watch: Watching = NOBODY) -> Answer:
        """Ask; the answer is there when its status is, and its status is a good one.

        Raises:
            UpstreamError: it is not.
        """
        watch.asked(self.dialect.path, body)
        answer = await self._client.open(self.dialect.path, body)
        watch.answered(answer.status, answer.headers)
        if answer.status == 200:
            return answer
        try:
            text = self._client.without_key(await answer.read())
            watch.received(text)
        finally:
            answer.close()
        raise read_error(self.profile, answer.status, answer.headers, text)

    @property
    def upstream_url(self) -> str:
        """Where the model server is, ending in /v1."""
        return self._client.url

    @property
    def models(self) -> list[str]:
        """Public model names: the configured ones first, then the server's own."""
        return list(dict.fromkeys([*self._models, *self.found.models]))


class Targets:
    """Gives every turn the target as it is known by then: a server may come up after the gateway."""

    def __init__(self, config: Config, client: UpstreamClient) -> None:
        self._config = config
        self._client = client
        upstream = config.upstream
        self._prober = Prober(client, upstream.url, upstream.api, upstream.profile)
        self._target: Target | None = None

    async def current(self) -> Target:
        """What is known now."""
        found = await self._prober.found()
        if self._target is None or self._target.found is not found:
            self._target = Target(self._config, self._client, found)
        return self._target

    @property
    def known(self) -> Target | None:
        """What was known when somebody last asked."""
        return self._target

    async def is_answering(self) -> bool:
        """Whether the model server answers now; asks it."""
        if self._target is None or not self._target.found.reachable:
            return (await self.current()).found.reachable
        try:
            await self._client.get_json(f"{self._client.url}/models")
        except UNREACHABLE:
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def profile_of(config: Config, found: Found) -> Profile:
    """The profile with the user's own values; what `--upstream-api` says stands above them.

    Raises:
        ValueError: a value that no profile can have.
    """
    overrides: Mapping[str, Any] = config.profile
    if config.upstream.api == "auto":
        return load_profile(found.profile, {"dialect": found.dialect, **overrides})
    return load_profile(found.profile, {**overrides, "dialect": found.dialect})


def _may_be_the_pattern(error: UpstreamError) -> bool:
    """A refusal of the schema; llama.cpp answers 500 to what it cannot compile."""
    return error.status in (400, 422, 500) and error.code != "context_length_exceeded"


def _tool_options(config: Config, profile: Profile) -> ToolOptions:
    is_eager = config.tools.deferred == "eager" or profile.eager_deferred
    return ToolOptions(
        name_rule=NameRule(
            max_length=profile.name_max_length, first_letter=profile.name_first_letter
        ),
        deferred="eager" if is_eager else "withhold",
        hosted=config.tools.hosted or profile.hosted,
        invalid=config.tools.invalid,
        invalid_by_name=config.tools.invalid_by_name,
        pattern=profile.pattern and config.tools.constrain == "auto",
        pattern_strict=profile.pattern_strict,
    )
