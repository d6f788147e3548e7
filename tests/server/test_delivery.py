"""A client that takes nothing is cut off, and its model let go."""

import asyncio
from typing import Any

import pytest

from gateway.server import delivery
from gateway.server.delivery import ClientGone, Delivery
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn


class Stuck:
    """A sink whose transport never drains, until it is broken off."""

    is_live = True

    def __init__(self) -> None:
        self.is_aborted = asyncio.Event()

    async def send(self, events: list[dict[str, Any]]) -> None:
        await self.is_aborted.wait()
        raise ConnectionResetError

    def abort(self) -> None:
        self.is_aborted.set()


def turn() -> Turn:
    begun = Turn(
        {"model": "m", "input": "x"}, History(), TurnOptions(), lambda p: f"{p}_1", lambda: 1
    )
    begun.send()
    begun.start()
    return begun


async def test_a_client_that_takes_nothing_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "SEND_SECONDS", 0.05)
    sink = Stuck()
    carrying = Delivery(turn(), sink, heartbeat_seconds=0.01)
    async with asyncio.timeout(5):
        with pytest.raises(ClientGone):
            await carrying.flush()
    assert sink.is_aborted.is_set()
    carrying.stop()
