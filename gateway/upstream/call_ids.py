"""Call ids for servers that insist on a form of their own: a one-to-one map, the same every turn.

Mistral takes exactly nine of [A-Za-z0-9] (Q50). An id that has that form already is kept, so that
ids the server made itself come back unchanged. Collisions are resolved in the order of the history.
"""

import hashlib
import re
from typing import Protocol

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALNUM9 = re.compile(r"[A-Za-z0-9]{9}")


class CallIds(Protocol):
    """Maps the public id of a call to the one that goes upstream."""

    def __call__(self, call_id: str) -> str: ...

    def copy(self) -> "CallIds": ...


class Keep:
    """Ids go as they are."""

    def __call__(self, call_id: str) -> str:
        return call_id

    def copy(self) -> "Keep":
        return self


class Alnum9:
    """Nine letters or digits, injective over one history."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def __call__(self, call_id: str) -> str:
        given = self._given.get(call_id)
        if given is None:
            given = self._free(call_id)
            self._given[call_id] = given
            self._taken.add(given)
        return given

    def _free(self, call_id: str) -> str:
        candidate = call_id if ALNUM9.fullmatch(call_id) else _digest(call_id)
        attempt = 0
        while candidate in self._taken:
            attempt += 1
            candidate = _digest(f"{call_id}\n{attempt}")
        return candidate

    def copy(self) -> "Alnum9":
        """A second map that has given the same ids so far."""
        twin = Alnum9()
        twin._given = dict(self._given)
        twin._taken = set(self._taken)
        return twin


def _digest(text: str) -> str:
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    letters = []
    for _ in range(9):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(letters)


FORMS: dict[str, type[Keep] | type[Alnum9]] = {"keep": Keep, "alnum9": Alnum9}
