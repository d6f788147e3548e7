"""Recorded exchanges with real servers: the file format of tests/recordings/upstreams, read."""

from pathlib import Path
from typing import NamedTuple

from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.upstream.responses_stream import ResponsesReader

FOLDER = Path(__file__).parents[1] / "recordings" / "upstreams"


class Exchange(NamedTuple):
    """One answer of a real server."""

    path: str
    status: int
    headers: dict[str, str]
    chunks: list[bytes]  # as the socket gave them

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    def reader(self, profile: Profile | None = None) -> ChatReader | ResponsesReader:
        """A new reader for this answer."""
        make = ChatReader if self.path.endswith("/chat/completions") else ResponsesReader
        return make(profile or Profile(), self.content_type)


def load(file: Path) -> Exchange:
    """Read one file: `# ` lines, then the body exactly as received."""
    raw = file.read_bytes()
    path, status, headers, sizes = "", 0, {}, []
    while raw.startswith(b"# "):
        line, _, raw = raw.partition(b"\n")
        key, _, rest = line.decode().removeprefix("# ").partition(" ")
        if key == "POST":
            path = rest
        elif key == "status:":
            status = int(rest[:3])
        elif key == "header:":
            name, _, value = rest.partition(":")
            headers[name.lower()] = value.strip()
        elif key == "chunk":
            sizes.append(int(rest.rpartition("bytes=")[2]))
    chunks = []
    for size in sizes:
        chunks.append(raw[:size])
        raw = raw[size:]
    return Exchange(path, status, headers, [*chunks, raw] if raw else chunks)


def all_files() -> list[Path]:
    """Every recording, in a steady order."""
    return sorted(FOLDER.glob("*/*.txt"))
