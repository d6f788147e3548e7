"""A strict validator of the canonical events: a state machine that raises at the first violation.

It knows the contract between dialects and turn and nothing of how events come about.
"""

from typing import Any

JSON = dict[str, Any]

DELTAS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}
TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
OWN_ITEMS = {"message", "reasoning", "function_call"}
CUT_REASONS = {"max_output_tokens", "content_filter"}


class Violation(AssertionError):
    """An event that the contract does not allow."""


def demand(condition: object, what: str, event: JSON) -> None:
    if not condition:
        raise Violation(f"{what}: {event}")


class Canonical:
    """Feed it the events of one answer in order, then `finish`."""

    def __init__(self) -> None:
        self.items: list[JSON] = []  # as in their done events
        self.terminal: JSON | None = None
        self._open: JSON | None = None
        self._next = 0
        self._texts: dict[str, str] = {}
        self._summary: list[str] = []
        self._is_incomplete = False

    def feed(self, event: JSON) -> None:
        demand(self.terminal is None, "event behind the terminal one", event)
        kind = event.get("type")
        demand(isinstance(kind, str), "no type", event)
        if kind in TERMINALS:
            self._end(event)
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.output_item.done":
            self._done(event)
        elif self._open is not None and self._open["type"] not in OWN_ITEMS:
            if "output_index" in event:
                demand(event["output_index"] == self._next, "event of no open item", event)
        elif kind in DELTAS:
            self._delta(event)
        else:
            demand("output_index" not in event, "foreign event of an own item", event)

    def finish(self) -> None:
        demand(self.terminal is not None, "no terminal event", {})

    # ---------------------------------------------------------------------------------------- items
    def _added(self, event: JSON) -> None:
        demand(set(event) == {"type", "output_index", "item"}, "fields", event)
        demand(self._open is None, "added while an item is open", event)
        demand(not self._is_incomplete, "item behind an incomplete one", event)
        demand(event["output_index"] == self._next, "output_index has a gap", event)
        item = event["item"]
        kind = item["type"]
        if kind == "message":
            demand(item["role"] == "assistant" and "content" not in item, "added message", event)
        elif kind == "reasoning":
            demand("content" not in item and "summary" not in item, "added reasoning", event)
        elif kind == "function_call":
            demand(isinstance(item["call_id"], str), "call_id", event)
            demand(isinstance(item["name"], str) and "arguments" not in item, "added call", event)
        self._open = item
        self._texts = {}
        self._summary = []

    def _delta(self, event: JSON) -> None:
        kind, delta = event["type"], event["delta"]
        summary = {"summary_index"} if "summary" in kind else set()
        demand(
            set(event) == {"type", "output_index", "delta"} | summary, "fields of a delta", event
        )
        demand(self._open is not None, "delta without an item", event)
        assert self._open is not None
        demand(self._open["type"] == DELTAS[kind], "delta of another kind of item", event)
        demand(event["output_index"] == self._next, "delta of another item", event)
        demand(isinstance(delta, str) and delta, "empty delta", event)
        if kind == "response.output_text.delta":
            demand("response.refusal.delta" not in self._texts, "text behind a refusal", event)
        if summary:
            index = event["summary_index"]
            demand(0 <= index <= len(self._summary), "summary_index has a gap", event)
            if index == len(self._summary):
                self._summary.append("")
            self._summary[index] += delta
        else:
            self._texts[kind] = self._texts.get(kind, "") + delta

    def _done(self, event: JSON) -> None:
        demand(set(event) == {"type", "output_index", "item"}, "fields", event)
        demand(self._open is not None, "done without added", event)
        assert self._open is not None
        item = event["item"]
        demand(event["output_index"] == self._next, "done of another item", event)
        demand(item["type"] == self._open["type"], "done of another kind", event)
        check = getattr(self, f"_done_{item['type']}", None)
        if check is not None:
            for key, value in self._open.items():
                demand(item.get(key) == value, f"{key} differs from added", event)
            check(item, event)
        if item["type"] in ("message", "function_call"):
            demand(item["status"] in ("completed", "incomplete"), "status", event)
            self._is_incomplete = item["status"] == "incomplete"
        self.items.append(item)
        self._open = None
        self._next += 1

    def _done_message(self, item: JSON, event: JSON) -> None:
        parts = item["content"]
        kinds = [part["type"] for part in parts]
        demand(kinds in (["output_text"], ["refusal"], ["output_text", "refusal"]), "parts", event)
        for part in parts:
            if part["type"] == "output_text":
                demand(set(part) == {"type", "text", "annotations", "logprobs"}, "text part", event)
                given = self._texts.pop("response.output_text.delta", "")
                demand(part["text"] == given, "deltas differ from done", event)
                demand(isinstance(part["annotations"], list), "annotations", event)
                demand(isinstance(part["logprobs"], list), "logprobs", event)
            else:
                given = self._texts.pop("response.refusal.delta", "")
                demand(part["refusal"] == given, "deltas differ from done", event)
        demand(not self._texts, "deltas that are not in done", event)

    def _done_reasoning(self, item: JSON, event: JSON) -> None:
        text = self._texts.get("response.reasoning_text.delta", "")
        content = [{"type": "reasoning_text", "text": text}] if text else []
        summary = [{"type": "summary_text", "text": part} for part in self._summary]
        demand(item["content"] == content, "deltas differ from done", event)
        demand(item["summary"] == summary, "summary deltas differ from done", event)

    def _done_function_call(self, item: JSON, event: JSON) -> None:
        given = self._texts.get("response.function_call_arguments.delta", "")
        demand(item["arguments"] == given, "deltas differ from done", event)
        if item["status"] == "completed":
            demand(given.strip(), "a finished call without arguments", event)

    # -------------------------------------------------------------------------------------- the end
    def _end(self, event: JSON) -> None:
        kind, response = event["type"], event["response"]
        demand(self._open is None, "terminal event while an item is open", event)
        demand(set(event) == {"type", "response"}, "fields", event)
        usage = response["usage"]
        if usage is not None:
            check_usage(usage, event)
        extra = set(response) - {"usage"}
        if kind == "response.completed":
            demand(not extra, "fields of completed", event)
            demand(not self._is_incomplete, "completed with an incomplete item", event)
        elif kind == "response.incomplete":
            demand(extra == {"incomplete_details"}, "fields of incomplete", event)
            reason = response["incomplete_details"]["reason"]
            demand(reason in CUT_REASONS, "reason", event)
        else:
            demand(extra == {"error"}, "fields of failed", event)
            error = response["error"]
            demand(set(error) == {"code", "message"}, "fields of error", event)
            demand(all(isinstance(v, str) and v for v in error.values()), "error", event)
        self.terminal = event


def check_usage(usage: JSON, event: JSON) -> None:
    """Every field there, and the sums right."""
    details_in, details_out = usage["input_tokens_details"], usage["output_tokens_details"]
    demand(set(details_in) == {"cached_tokens", "cache_write_tokens"}, "usage", event)
    demand(set(details_out) == {"reasoning_tokens"}, "usage", event)
    total = usage["input_tokens"] + usage["output_tokens"]
    demand(usage["total_tokens"] == total, "total", event)
    cached = details_in["cached_tokens"] + details_in["cache_write_tokens"]
    demand(0 <= cached <= usage["input_tokens"], "cached", event)
    demand(0 <= details_out["reasoning_tokens"] <= usage["output_tokens"], "reasoning", event)


def check_canonical(events: list[JSON]) -> Canonical:
    """Validate all events of one answer."""
    machine = Canonical()
    for event in events:
        machine.feed(event)
    machine.finish()
    return machine
