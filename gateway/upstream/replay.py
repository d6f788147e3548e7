"""A thread put into the one order that every server accepts, before a dialect writes it.

Rules 1 to 4 of replaying: outputs stand directly after the calls of their turn and in their order,
nothing stands between, late system text has a place, foreign items have become messages.
Works item by item: what `add` has given out never changes when more items follow.
"""

from gateway.errors import RequestError
from gateway.upstream.notes import translate_foreign
from gateway.upstream.parts import split_output, text_of
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON

SYSTEM_ROLES = ("system", "developer")
OWN_TYPES = ("message", "reasoning", "function_call", "function_call_output")

# Stands before images that came out of tools, so that the model knows whose they are (Q49).
TOOL_IMAGES_LABEL = "[Images from the tool output above]"


class Replay:
    """Holds back what would stand between a call and its output (Q46)."""

    def __init__(self, profile: Profile, *, can_pass: bool) -> None:
        self._profile = profile
        self._can_pass = can_pass  # the API has a place for items of unknown types
        self._waiting: dict[str, None] = {}  # call_ids of this turn's calls, in order
        self._outputs: dict[str, JSON] = {}
        self._held: list[JSON] = []

    def copy(self) -> "Replay":
        """A second replay that has seen the same items."""
        twin = Replay(self._profile, can_pass=self._can_pass)
        twin._waiting = dict(self._waiting)
        twin._outputs = dict(self._outputs)
        twin._held = list(self._held)
        return twin

    def add(self, item: JSON) -> list[JSON]:
        """The items that are free to go now that `item` is known."""
        kind = item.get("type", "message")
        if kind not in OWN_TYPES:
            item = translate_foreign(item, self._profile, can_pass=self._can_pass)
            kind = item.get("type")
        if kind == "function_call_output":
            return self._add_output(item)
        if not self._waiting:
            return self._pass(item, kind)
        # Text and further calls of the same turn may join the calls as long as no output has come.
        if self._outputs or self._held or not _is_assistant(item, kind):
            self._held.append(item)
            return []
        return self._pass(item, kind)

    def close(self) -> None:
        """At the end of the history.

        Raises:
            RequestError: a call has no output; the turn has checked this before.
        """
        if self._waiting:
            missing = [call_id for call_id in self._waiting if call_id not in self._outputs]
            raise RequestError(
                f"No tool output found for function call {missing[0]}.", param="input"
            )

    def _pass(self, item: JSON, kind: object) -> list[JSON]:
        if kind == "function_call":
            if item["call_id"] in self._waiting:
                raise RequestError(
                    f"Two function calls of one turn have the call_id {item['call_id']}.",
                    param="input",
                )
            self._waiting[item["call_id"]] = None
        elif kind == "message" and item["role"] in SYSTEM_ROLES:
            return [_late_system(item, self._profile)]
        return [item]

    def _add_output(self, item: JSON) -> list[JSON]:
        call_id = item["call_id"]
        if call_id not in self._waiting or call_id in self._outputs:
            if self._held:  # its call may be among them
                self._held.append(item)
                return []
            raise RequestError(
                f"No tool call found for function call output with call_id {call_id}.",
                param="input",
            )
        self._outputs[call_id] = item
        if len(self._outputs) < len(self._waiting):
            return []
        return self._release()

    def _release(self) -> list[JSON]:
        """The turn's outputs, its images, then everything that had to wait for them."""
        outputs = [self._outputs[call_id] for call_id in self._waiting]
        self._waiting, self._outputs = {}, {}
        if self._profile.tool_content == "string":
            outputs = _flatten(outputs, self._profile)
        held, self._held = self._held, []
        for item in held:
            outputs += self.add(item)
        return outputs


def lead(lowered: JSON, profile: Profile) -> tuple[list[JSON], list[JSON]]:
    """The system messages that stand first, and the items after them.

    With `late_system = "merge"` every system text of the thread stands first.
    """
    texts = []
    instructions = lowered.get("instructions")
    if instructions:
        texts.append({"type": "message", "role": "system", "content": instructions})
    items = lowered["input"]
    count = 0
    while count < len(items) and _is_system(items[count]):
        count += 1
    rest = items[count:]
    system = [*texts, *items[:count]]
    if profile.late_system == "merge":
        system += [item for item in rest if _is_system(item)]
        rest = [item for item in rest if not _is_system(item)]
    system = [item for item in system if item["content"]]
    if profile.system == "keep" or not system:
        return [_late_system(item, profile, policy="keep") for item in system], rest
    merged = "\n\n".join(filter(None, (system_text(item) for item in system)))
    role = "user" if profile.system == "user" else "system"
    return [{"type": "message", "role": role, "content": merged}], rest


def system_text(item: JSON) -> str:
    """The text of a system or developer message."""
    return text_of(item["content"], between="\n", where="a system message")


def _late_system(item: JSON, profile: Profile, policy: str | None = None) -> JSON:
    """System text amid the thread: strict templates refuse the role there (Q45)."""
    own = item["role"]
    text = system_text(item)
    if (policy or profile.late_system) == "keep":
        kept = own if profile.developer_role else "system"
        return {"type": "message", "role": kept, "content": text}
    return {"type": "message", "role": "user", "content": f"[{own} message]\n{text}"}


def _is_system(item: JSON) -> bool:
    return item.get("type", "message") == "message" and item.get("role") in SYSTEM_ROLES


def _is_assistant(item: JSON, kind: object) -> bool:
    return kind != "message" or item["role"] == "assistant"


def _flatten(outputs: list[JSON], profile: Profile) -> list[JSON]:
    flat: list[JSON] = []
    images: list[JSON] = []
    for item in outputs:
        text, found = split_output(item["output"], profile)
        flat.append(item if text is item["output"] else {**item, "output": text})
        images += found
    if images:
        label = {"type": "input_text", "text": TOOL_IMAGES_LABEL}
        flat.append({"type": "message", "role": "user", "content": [label, *images]})
    return flat
