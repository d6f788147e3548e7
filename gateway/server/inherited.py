"""Sockets that somebody else has opened for us: socket activation (sd_listen_fds(3)).

They stay open in systemd while the gateway restarts: connections that come meanwhile wait in their
queue, and none is refused.
"""

import os
import socket
from collections.abc import MutableMapping

from gateway.config import ConfigError

# SD_LISTEN_FDS_START: behind stdin, stdout and stderr.
FIRST_FD = 3

_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_FAMILIES = (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)


def inherited_sockets(
    environ: MutableMapping[str, str], *, first: int = FIRST_FD
) -> list[socket.socket]:
    """The listening sockets that were passed to this process; none when it was started otherwise.

    The variables leave the environment: children of this process are not meant.

    Args:
        environ: the environment.
        first: the first descriptor.

    Raises:
        ConfigError: what was passed cannot be listened on.
    """
    pid, count, names = (environ.pop(name, "") for name in _VARIABLES)
    if not count or pid != str(os.getpid()):
        return []  # nothing, or meant for the process that started us
    if not count.isascii() or not count.isdigit():
        raise ConfigError(f"LISTEN_FDS={count!r} is no number: let systemd set it, or unset it.")
    labels = names.split(":") if names else [f"number {index + 1}" for index in range(int(count))]
    if len(labels) != int(count):
        raise ConfigError(
            f"LISTEN_FDNAMES={names!r} does not name LISTEN_FDS={count} sockets: "
            "let systemd set both, or unset them."
        )
    opened: list[socket.socket] = []
    try:
        for index, label in enumerate(labels):
            opened.append(_listening(first + index, label))
    except ConfigError:
        for taken in opened:
            taken.close()
        raise
    return opened


def _listening(fd: int, label: str) -> socket.socket:
    try:
        taken = socket.socket(fileno=fd)
    except OSError as error:
        raise ConfigError(
            f"The socket that was passed as {label} (descriptor {fd}) is none: {error.strerror}."
        ) from None
    problem = _problem(taken)
    if problem:
        taken.close()
        raise ConfigError(f"The socket that was passed as {label} {problem}.")
    taken.set_inheritable(False)
    taken.setblocking(False)
    return taken


def _problem(taken: socket.socket) -> str:
    """Why agents cannot connect there; "" when they can."""
    if taken.family not in _FAMILIES or taken.type != socket.SOCK_STREAM:
        return "is no stream socket: use ListenStream= in the socket unit"
    if not taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "does not listen: use Accept=no in the socket unit"
    return ""
