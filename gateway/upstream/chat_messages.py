"""Lowered items -> chat messages: one assistant message a turn, its tool messages behind it.

Works item by item. Messages that were given out never change when the thread grows, so identical
history is an identical byte prefix, turn after turn, and a cache may keep what is encoded already.
"""

from typing import Any

from gateway.errors import RequestError
from gateway.upstream.call_ids import FORMS
from gateway.upstream.parts import chat_part, is_text, text_of
from gateway.upstream.profiles import Profile
from gateway.upstream.replay import SYSTEM_ROLES, Replay, lead
from gateway.wire.json import JSON, MalformedJSON, dumps_str, loads


def chat_messages(lowered: JSON, profile: Profile) -> list[JSON]:
    """All messages of a request.

    Raises:
        RequestError: an item that this server cannot carry, or nothing to answer at all.
    """
    system, items = lead(lowered, profile)
    thread = ChatThread(profile)
    messages: list[JSON] = []
    for item in system:
        messages += thread.add_message(item)
    for item in items:
        messages += thread.add(item)
    messages += thread.tail()
    if not messages:
        raise RequestError("There is nothing to answer: 'input' is empty.", param="input")
    return messages


class ChatThread:
    """A growing chat. `add` gives the messages that are final, `tail` those that would end it now."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._replay = Replay(profile, can_pass=False)
        self._call_id = FORMS[profile.call_id]()
        self._texts: list[str] = []  # the open assistant message
        self._thoughts: list[str] = []
        self._calls: list[JSON] = []
        self._last: JSON | None = None  # not given out yet: a neighbour may join it

    def add(self, item: JSON) -> list[JSON]:
        """Messages that are final now that `item` is known."""
        done: list[JSON] = []
        for ordered in self._replay.add(item):
            WRITERS[ordered.get("type", "message")](self, ordered, done)
        return done

    def add_message(self, item: JSON) -> list[JSON]:
        """A leading system message: it waits for nothing."""
        done: list[JSON] = []
        self._write_message(item, done)
        return done

    def tail(self) -> list[JSON]:
        """The messages that are still open, as if the thread ended here. Changes nothing.

        Raises:
            RequestError: a call has no output.
        """
        self._replay.close()
        twin = self._copy()
        done: list[JSON] = []
        twin._close_assistant(done)
        text = self._profile.continue_text
        if text and twin._last is not None and twin._last["role"] not in ("user", "tool"):
            twin._emit({"role": "user", "content": text}, done)  # rule 9: user or tool is last
        if twin._last is not None:
            done.append(twin._last)
        return done

    def _copy(self) -> "ChatThread":
        twin = ChatThread(self._profile)
        twin._replay = self._replay.copy()
        twin._call_id = self._call_id.copy()
        twin._texts = list(self._texts)
        twin._thoughts = list(self._thoughts)
        twin._calls = list(self._calls)
        twin._last = self._last
        return twin

    # --- one writer for each type of item

    def _write_message(self, item: JSON, done: list[JSON]) -> None:
        role, content = item["role"], item["content"]
        if role == "assistant":
            text = text_of(content, between="", where="an assistant message")
            if text:
                self._texts.append(text)
            return
        if role != "user" and role not in SYSTEM_ROLES:
            raise RequestError(f"Messages of role '{role}' are not supported.", param="input")
        if isinstance(content, str) or is_text(content):
            content = text_of(content, between="\n", where="a message")
        else:
            content = [chat_part(part, self._profile) for part in content]
        if content:  # no empty messages
            self._close_assistant(done)
            self._emit({"role": role, "content": content}, done)

    def _write_reasoning(self, item: JSON, done: list[JSON]) -> None:
        if self._profile.reasoning_out:
            text = reasoning_text(item)
            if text:
                self._thoughts.append(text)

    def _write_call(self, item: JSON, done: list[JSON]) -> None:
        function = {"name": item["name"], "arguments": object_text(item["arguments"])}
        call_id = self._call_id(item["call_id"])
        self._calls.append({"id": call_id, "type": "function", "function": function})

    def _write_output(self, item: JSON, done: list[JSON]) -> None:
        self._close_assistant(done)
        content = item["output"]
        if not isinstance(content, str):  # tool_content = "parts"
            content = [chat_part(part, self._profile) for part in content or ()]
        call_id = self._call_id(item["call_id"])
        self._emit({"role": "tool", "tool_call_id": call_id, "content": content}, done)

    # --- messages

    def _close_assistant(self, done: list[JSON]) -> None:
        """The open turn becomes one message; reasoning alone is none (Kimi: 400 on empty text)."""
        texts, thoughts, calls = self._texts, self._thoughts, self._calls
        if texts or calls:
            message: JSON = {"role": "assistant"}
            if texts:
                message["content"] = "\n\n".join(texts)
            elif self._profile.assistant_empty_content != "omit":
                message["content"] = EMPTY_CONTENT[self._profile.assistant_empty_content]
            if thoughts or self._profile.reasoning_placeholder:
                # Always, not only once there was reasoning: else earlier messages would change.
                message[self._profile.reasoning_out or "reasoning_content"] = "\n\n".join(thoughts)
            if calls:
                message["tool_calls"] = calls
            self._emit(message, done)
        if texts or calls or thoughts:
            self._texts, self._thoughts, self._calls = [], [], []

    def _emit(self, message: JSON, done: list[JSON]) -> None:
        """Give out the last message and hold this one, by the server's rules for neighbours."""
        last, profile = self._last, self._profile
        role, before = message["role"], last["role"] if last else ""
        if profile.alternate and role == "user" and last is not None and before == "user":
            content = _join(last["content"], message["content"])
            self._last = {"role": "user", "content": content}
            return
        if profile.after_tool and role == "user" and before == "tool":
            self._hold({"role": "assistant", "content": profile.after_tool}, done)
        elif profile.alternate and role == "assistant" and before in ("", *SYSTEM_ROLES):
            # The templates that take turns begin with the user.
            self._hold({"role": "user", "content": FIRST_USER_TEXT}, done)
        self._hold(message, done)

    def _hold(self, message: JSON, done: list[JSON]) -> None:
        if self._last is not None:
            done.append(self._last)
        self._last = message


FIRST_USER_TEXT = "Hello."
EMPTY_CONTENT = {"null": None, "empty": ""}

WRITERS = {
    "message": ChatThread._write_message,
    "reasoning": ChatThread._write_reasoning,
    "function_call": ChatThread._write_call,
    "function_call_output": ChatThread._write_output,
}


def reasoning_text(item: JSON) -> str:
    """What can be read of a reasoning item: its own text, else its summary."""
    parts = item.get("content") or item.get("summary") or ()
    return "\n\n".join(filter(None, (part.get("text") for part in parts)))


def object_text(arguments: Any) -> str:
    """Arguments as the text of a JSON object: llama.cpp and transformers answer 500, Ollama 400 (Q60).

    Text that is one already stays as the model wrote it.
    """
    if not isinstance(arguments, str):
        return dumps_str(arguments if isinstance(arguments, dict) else {"_raw": arguments})
    if not arguments.strip():
        return "{}"
    try:
        value = loads(arguments)
    except MalformedJSON:
        value = None
    return arguments if isinstance(value, dict) else dumps_str({"_raw": arguments})


def _join(first: Any, second: Any) -> Any:
    """Contents of two neighbours as one."""
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_as_parts(first), *_as_parts(second)]


def _as_parts(content: Any) -> list[JSON]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
