"""The model server's address is told to callers on this machine, without its password, and to no others."""

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.config import Config
from gateway.server.about import upstream_of
from gateway.server.target import Target
from gateway.upstream.client import UpstreamClient
from gateway.upstream.probe import Found

FOUND = Found("chat", "default", ("a",), "a sign", True, {"a": 4096})


class Transport:
    """Just enough of a connection to come from somewhere."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self.address, 1234) if name == "peername" else default


def told(address: str, headers: dict[str, str]) -> dict[str, object]:
    client = UpstreamClient("http://user:secret@h:1/v1")
    request = make_mocked_request("GET", "/readyz", headers, transport=Transport(address))
    return upstream_of(request, Target(Config(), client, FOUND))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_callers_on_this_machine_are_told(address: str) -> None:
    upstream = told(address, {})["upstream"]
    assert isinstance(upstream, dict)
    assert upstream["url"] == "http://h:1/v1"
    assert upstream["models"] == {"a": "a"}
    assert upstream["windows"] == {"a": 4096}
    assert "secret" not in str(upstream)


@pytest.mark.parametrize(
    ("address", "headers"),
    [
        ("192.0.2.1", {}),
        ("127.0.0.1", {"X-Forwarded-For": "192.0.2.1"}),
        ("127.0.0.1", {"Forwarded": "for=192.0.2.1"}),
        ("127.0.0.1", {"Via": "1.1 caddy"}),
        ("", {}),
    ],
)
def test_others_are_told_nothing(address: str, headers: dict[str, str]) -> None:
    assert told(address, headers) == {}
