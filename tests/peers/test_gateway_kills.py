"""kill -9 of a whole gateway under load: what a client saw as stored is there after the restart."""

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.peers.gateway_process import GatewayProcess
from tests.peers.postgres import PostgresServer
from tests.scripted import ScriptedUpstream
from tests.server.clients import ws_reply

JSON = dict[str, Any]
CLIENTS = 4


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: Any, tmp_path: Path) -> Iterator[tuple[str, PostgresServer | None]]:
    """A store's URL, and its server."""
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path}/state/responses.db", None
        return
    with PostgresServer() as server:
        yield server.url, server


class Client:
    """An agent that continues its conversation over new sockets, and remembers what was stored."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.stored: list[str] = []

    async def run(self, url: str) -> None:
        """Turn after turn until the gateway is gone."""
        async with aiohttp.ClientSession() as session:
            while True:
                try:
                    async with session.ws_connect(f"{url}/responses", max_msg_size=0) as socket:
                        for _ in range(3):
                            await self.turn(socket)
                except (aiohttp.ClientError, TypeError, ConnectionError):
                    return

    async def turn(self, socket: aiohttp.ClientWebSocketResponse) -> JSON:
        """One turn; it is stored when its terminal event says so."""
        latest = self.stored[-1] if self.stored else None
        request = {"model": "scripted", "input": "go on", "previous_response_id": latest}
        await socket.send_json({"type": "response.create", **request})
        response = (await ws_reply(socket)).response
        assert (response["status"], response["store"]) == ("completed", True)
        self.stored.append(response["id"])
        return response


async def hold_to_it(url: str, client: Client, upstream: ScriptedUpstream) -> None:
    """Every response that the client saw is there, and its conversation goes on from all of them."""
    async with aiohttp.ClientSession() as session:
        for id in client.stored:
            async with session.get(f"{url}/responses/{id}") as answer:
                assert answer.status == 200
                assert (await answer.json())["id"] == id
        length = 2 * len(client.stored) + 1
        async with session.ws_connect(f"{url}/responses", max_msg_size=0) as socket:
            await client.turn(socket)
    assert len(upstream.requests[-1].body["messages"]) == length


@pytest.mark.timeout(600)
async def test_nothing_that_was_seen_as_stored_is_lost(
    place: tuple[str, PostgresServer | None], tmp_path: Path
) -> None:
    store, server = place
    moments = random.Random(5)
    async with ScriptedUpstream(lambda request: "a step") as upstream:
        arguments = ("--upstream", upstream.url, "--upstream-api", "chat", "--store", store)
        clients: list[Client] = []
        for number in range(51):
            workers = str(moments.choice((1, 1, 2)))
            async with GatewayProcess(tmp_path, *arguments, "--workers", workers) as gateway:
                for client in clients:
                    await hold_to_it(gateway.url, client, upstream)
                if number == 50:
                    return
                clients = [Client(index) for index in range(CLIENTS)]
                runs = [asyncio.create_task(client.run(gateway.url)) for client in clients]
                wanted = moments.randrange(1, 40)
                while sum(len(client.stored) for client in clients) < wanted:
                    done, _ = await asyncio.wait(runs, timeout=0.002)
                    assert not done
                if server is not None and number % 5 == 4:
                    await asyncio.to_thread(server.stop, signal.SIGQUIT)
                    await asyncio.to_thread(server.start)
                gateway.kill()
                await asyncio.gather(*runs)
