"""ResponsesReader: one test for each quirk of Responses servers that concerns reading."""

import json
from typing import Any

import pytest

from gateway.upstream.profiles import Profile
from gateway.upstream.responses_stream import ResponsesReader
from tests.upstream.canonical import JSON
from tests.upstream.streams import SSE, Answer, read_responses, sse

JSON_TYPE = "application/json"
USAGE = {"input_tokens": 10, "output_tokens": 4, "total_tokens": 14}


def event(type: str, **fields: Any) -> JSON:
    return {"type": f"response.{type}", **fields}


def text_delta(delta: str, **fields: Any) -> JSON:
    return event("output_text.delta", delta=delta, **fields)


def args_delta(delta: str, **fields: Any) -> JSON:
    return event("function_call_arguments.delta", delta=delta, **fields)


def added(item: Any, **fields: Any) -> JSON:
    return event("output_item.added", item=item, **fields)


def done(item: Any, **fields: Any) -> JSON:
    return event("output_item.done", item=item, **fields)


def message(text: str = "", id: str = "msg_1", **fields: Any) -> JSON:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": id, "role": "assistant", "content": content, **fields}


def call(arguments: str = "", id: str = "fc_1", call_id: str = "c1", name: str = "f") -> JSON:
    return {
        "type": "function_call",
        "id": id,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }


def completed(*output: JSON, type: str = "completed", **fields: Any) -> JSON:
    return event(type, response={"output": list(output), "usage": USAGE, **fields})


def stream(*events: Any, end: JSON | None = None) -> Answer:
    return read_responses(sse(*events, end if end is not None else completed()))


# ----------------------------------------------------------------------------------- framing, errors
def test_q03_no_event_line():
    assert stream(text_delta("a")).text == "a"


def test_q03_the_event_line_stands_in_for_a_missing_type():
    raw = b'event: response.output_text.delta\ndata: {"delta": "a"}\n\n'
    raw += b'event: response.completed\ndata: {"response": {}}\n\n'
    assert (read_responses(raw).text, read_responses(raw).ending) == ("a", "completed")


@pytest.mark.parametrize(
    "payload",
    [
        {"error": {"code": 500, "message": "boom", "type": "server_error"}},  # llama.cpp
        {"object": "error", "message": "boom", "code": 500},
        {"type": "error", "message": "boom", "code": None, "param": None, "sequence_number": 3},
        {"type": "error", "error": {"message": "boom", "type": "server_error"}},
        {"type": "response.error", "error": "boom"},
    ],
)
def test_q04_error_objects(payload):
    answer = stream(text_delta("so far"), payload, text_delta("never"))
    assert answer.error == {"code": "server_error", "message": "boom"}
    assert answer.text == "so far"


def test_q04_an_error_event_without_type():
    raw = b'event: error\ndata: {"error": {"message": "boom", "type": "server_error"}}\n\n'  # ds4
    assert read_responses(raw).error["message"] == "boom"


def test_q05_done_marker_is_no_terminal_event():
    behind = read_responses(sse(text_delta("a"), completed(), done=True))
    assert behind.ending == "completed"
    alone = read_responses(sse(text_delta("a"), done=True))
    assert "stream ended early" in alone.error["message"]


def test_q05_eof_without_a_terminal_event_fails():
    answer = read_responses(sse(added(call()), args_delta('{"a":1}')))
    assert answer.ending == "failed"
    assert answer.items[0]["status"] == "incomplete"
    assert "stream ended early" in read_responses(b"").error["message"]


def test_q06_bodies_that_are_no_answer():
    page = read_responses(b"<title>Bad &amp; gone</title>", content_type="text/html")
    assert page.error["message"] == "The upstream answered HTML (Bad & gone)."
    odd = read_responses(b'{"status": "warming up"}', content_type=JSON_TYPE)
    assert "warming up" in odd.error["message"]


def test_q08_an_error_body_instead_of_a_stream():
    raw = b'{"detail": "no such model"}'
    assert read_responses(raw, content_type=JSON_TYPE).error["message"] == "no such model"


@pytest.mark.parametrize("content_type", [SSE, JSON_TYPE])
def test_q09_a_whole_response(content_type):
    reasoning = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "why"}]}
    output = [reasoning, message("a"), call('{"a":1}')]
    raw = json.dumps({"object": "response", "status": "completed", "output": output}).encode()
    answer = read_responses(raw, content_type=content_type)
    assert (answer.reasoning, answer.text, answer.calls) == ("why", "a", [("f", '{"a":1}')])
    assert answer.ending == "completed"


def test_q09_a_whole_response_that_is_not_finished():
    raw = json.dumps({"object": "response", "status": "queued", "output": []}).encode()
    assert read_responses(raw, content_type=JSON_TYPE).ending == "failed"


def test_q09_a_stream_with_the_type_of_a_body():
    raw = sse(text_delta("a"), completed())
    assert read_responses(raw, content_type=JSON_TYPE).text == "a"


# ---------------------------------------------------------------------------------- verdicts, Q16, Q17
@pytest.mark.parametrize("type", ["completed", "done"])
def test_q17_completed_after_length(type):
    """llama.cpp: response and item are called completed though the call was cut."""
    cut = call('{"city":')
    answer = stream(added(call()), args_delta('{"city":'), done(cut), end=completed(cut, type=type))
    assert answer.ending == "max_output_tokens"
    assert answer.items[0]["status"] == "incomplete"


def test_q17_vllm_says_completed_in_the_event_and_incomplete_in_the_response():
    details = {"reason": "max_output_tokens"}
    end = completed(status="incomplete", incomplete_details=details)
    answer = stream(text_delta("a"), end=end)
    assert answer.ending == "max_output_tokens"
    assert answer.items[0]["status"] == "incomplete"


def test_q16_a_name_alone_that_the_limit_cut():
    details = {"reason": "max_output_tokens"}
    end = completed(type="incomplete", status="incomplete", incomplete_details=details)
    answer = stream(added(call()), done(call()), end=end)
    assert (answer.items[0]["arguments"], answer.items[0]["status"]) == ("", "incomplete")


def test_q24_no_arguments_are_an_empty_object():
    assert stream(added(call()), done(call()), completed(call())).calls == [("f", "{}")]
    two = stream(added(call()), done(call()), added(call(id="fc_2", call_id="c2", name="g")))
    assert two.calls == [("f", "{}"), ("g", "{}")]


# ------------------------------------------------------------------------------- reasoning, Q33 to Q35
@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning"])
def test_q33_reasoning_text(kind):
    answer = stream(
        event(f"{kind}.delta", delta="why", item_id="rs_1"),
        event(f"{kind}.done", text="why", item_id="rs_1"),
        text_delta("a"),
    )
    assert answer.items[0]["content"] == [{"type": "reasoning_text", "text": "why"}]
    assert answer.text == "a"


def test_q33_summary_without_part_added():
    """Ollama."""
    answer = stream(
        event("reasoning_summary_text.delta", delta="why", summary_index=0),
        event("reasoning_summary_text.delta", delta="so", summary_index=1),
        event("reasoning_summary_text.done", text="so far", summary_index=1),
        text_delta("a"),
    )
    texts = [part["text"] for part in answer.items[0]["summary"]]
    assert texts == ["why", "so far"]


def test_q33_reasoning_that_comes_with_its_item_only():
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "one"}, {"text": "two"}],
        "content": None,
        "encrypted_content": "blob",
    }
    answer = stream(done(item), completed(item))
    assert [part["text"] for part in answer.items[0]["summary"]] == ["one", "two"]
    assert answer.items[0]["encrypted_content"] == "blob"
    assert len(answer.items) == 1


def test_q33_reasoning_that_is_only_sealed():
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "blob"}
    answer = stream(added(item), done(item), text_delta("a"), end=completed(item, message("a")))
    assert answer.items[0]["encrypted_content"] == "blob"
    assert [item["type"] for item in answer.items] == ["reasoning", "message"]


def test_q33_summary_given_is_not_given_again():
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"text": "one"}]}
    delta = event("reasoning_summary_text.delta", delta="one", item_id="rs_1")
    assert stream(added(item), delta, done(item)).reasoning == "one"


def test_q35_refusals():
    item = message()
    item["content"] = [{"type": "refusal", "refusal": "no way"}]
    answer = stream(event("refusal.delta", delta="no"), done(item), completed(item))
    assert answer.items[0]["content"] == [{"type": "refusal", "refusal": "no way"}]
    told = stream(event("refusal.done", refusal="no"))
    assert told.items[0]["content"][0]["refusal"] == "no"


def test_q35_content_of_odd_kinds():
    item = {"type": "message", "content": "plain"}
    assert stream(done(item)).text == "plain"
    assert stream(done({"type": "message", "content": ["a", {"text": 1}]})).items == []


# ------------------------------------------------------------------------- skeleton, Q37 to Q43, Q27
def test_q37_no_indices_no_ids():
    """llama.cpp: neither numbers nor indices, and every done comes at the end."""
    answer = stream(
        added(message()),
        text_delta("a", item_id="msg_1"),
        added(call()),
        args_delta('{"a":', item_id="fc_1"),
        args_delta("1}", item_id="fc_1"),
        added(call(id="fc_2", call_id="c2", name="g")),
        args_delta("{}", item_id="fc_2"),
        done(message("a")),
        done(call('{"a":1}')),
        done(call("{}", id="fc_2", call_id="c2", name="g")),
        end=completed(message("a"), call('{"a":1}'), call("{}", id="fc_2", call_id="c2", name="g")),
    )
    assert [item["type"] for item in answer.items] == ["message", "function_call", "function_call"]
    assert answer.calls == [("f", '{"a":1}'), ("g", "{}")]
    assert answer.notes == []


def test_q37_parallel_calls_without_ids():
    answer = stream(
        added({**call(), "id": None}, output_index=0),
        args_delta('{"a":', output_index=0),
        added({**call(call_id="c2", name="g"), "id": None}, output_index=1),
        args_delta("{}", output_index=1),
        args_delta("1}", output_index=0),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", "{}")]


def test_q38_added_missing():
    answer = stream(
        args_delta('{"a":', item_id="fc_1", output_index=0),
        args_delta('{"b":', item_id="fc_2", output_index=1),
        args_delta("1}", item_id="fc_1", output_index=0),
        args_delta("2}", item_id="fc_2", output_index=1),
        event("function_call_arguments.done", arguments='{"a":1}', item_id="fc_1", name="f"),
        done(call('{"b":2}', id="fc_2", call_id="c2", name="g"), output_index=1),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q38_added_missing_and_indices_too():
    answer = stream(
        args_delta('{"a":1}', item_id="fc_1"),
        args_delta('{"b":2}', item_id="fc_2"),
        done(call('{"a":1}', name="f")),
        done(call('{"b":2}', id="fc_2", call_id="c2", name="g")),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q38_added_behind_its_deltas_or_twice():
    answer = stream(
        args_delta('{"a":', output_index=0),
        added(call(), output_index=0),
        added(call(), output_index=0),
        args_delta("1}", output_index=0),
        done(call('{"a":1}'), output_index=0),
    )
    assert answer.calls == [("f", '{"a":1}')]


def test_q38_item_ids_that_differ():
    answer = stream(
        added(message(id="msg_a"), output_index=0),
        text_delta("a", item_id="msg_b", output_index=0),
        done(message("a", id="msg_c"), output_index=0),
        added(call(id="fc_a"), output_index=1),
        args_delta("{}", item_id="fc_b"),
        done(call("{}", id="fc_c")),
        end=completed(message("a", id="msg_d"), call("{}", id="fc_d")),
    )
    assert (answer.text, answer.calls) == ("a", [("f", "{}")])
    assert len(answer.items) == 2


def test_q38_call_ids_that_differ_do_not_run_a_call_twice():
    answer = stream(
        added(call()), args_delta("{}"), done(call("{}")), end=completed(call("{}", "x", "other"))
    )
    assert answer.calls == [("f", "{}")]


def test_q38_done_by_call_id_and_by_name():
    answer = stream(
        added(call(id="", call_id="c1", name="f")),
        added(call(id="", call_id="c2", name="g")),
        done(call('{"b":2}', id="", call_id="c2", name="g")),
        done(call('{"a":1}', id="", call_id="", name="f")),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q38_done_of_another_name_is_another_call():
    bare = {"type": "function_call", "arguments": "{}"}
    answer = stream(added({**bare, "name": "f"}), done({**bare, "name": "g"}))
    assert answer.calls == [("f", "{}"), ("g", "{}")]


def test_q38_duplicates_and_another_order_in_the_final_list():
    output = [call("{}"), message("a"), message("a", id="again"), call("{}")]
    answer = stream(
        text_delta("a", item_id="msg_1"), added(call()), done(call("{}")), end=completed(*output)
    )
    assert [item["type"] for item in answer.items] == ["message", "function_call"]


def test_q38_the_final_list_fills_gaps():
    first = call('{"a":1}', id="", call_id="")
    second = call('{"b":2}', id="", call_id="", name="g")
    answer = stream(
        text_delta("a"), done(second), end=completed(message("ab", id="msg_z"), first, second)
    )
    assert answer.text == "ab"
    assert sorted(answer.calls) == [("f", '{"a":1}'), ("g", '{"b":2}')]
    assert stream(end=completed(message("a"), call("{}"))).calls == [("f", "{}")]


def test_q39_done_without_deltas():
    answer = stream(
        event("output_text.done", text="a", item_id="msg_1"),
        done(message("a")),
        added(call()),
        event("function_call_arguments.done", arguments='{"a":1}', item_id="fc_1"),
        done(call('{"a":1}')),
    )
    assert (answer.text, answer.calls) == ("a", [("f", '{"a":1}')])


def test_q39_item_done_only():
    assert stream(done(call('{"a":1}'))).calls == [("f", '{"a":1}')]
    as_object = {**call(), "arguments": {"a": 1}}
    assert stream(done(as_object)).calls == [("f", '{"a":1}')]
    assert stream(done({**call(), "arguments": None})).calls == [("f", "{}")]


def test_q39_transformers_sends_whole_calls_and_an_empty_message():
    whole = call('{"a":1}')
    empty = message(id="msg_9")
    answer = stream(
        added(whole, output_index=1),
        event("function_call_arguments.done", arguments='{"a":1}', item_id="fc_1", output_index=1),
        done(whole, output_index=1),
        added(empty, output_index=1),
        done(empty, output_index=1),
        end=completed(empty, whole),
    )
    assert [item["type"] for item in answer.items] == ["function_call"]


def test_q40_done_that_differs_from_its_deltas():
    answer = stream(text_delta("ab"), event("output_text.done", text="ax"), done(message("ax")))
    assert answer.text == "ab"
    assert "differs" in answer.notes[0]
    assert stream(text_delta("ab"), done(message())).notes == []


@pytest.mark.parametrize(
    ("end", "ending"),
    [
        (completed(), "completed"),
        (completed(type="done"), "completed"),
        (completed(type="done", status="incomplete"), "max_output_tokens"),
        (completed(status="in_progress"), "completed"),
        (completed(type="incomplete", incomplete_details={"reason": "max_tokens"}), "max_output_tokens"),
        (completed(type="incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (completed(type="incomplete", incomplete_details={"reason": ["odd"]}), "max_output_tokens"),
        (completed(type="failed", status="failed", error=None), "failed"),
        (completed(type="cancelled"), "failed"),
        (completed(type="completed", status="cancelled"), "failed"),
        ({"type": "response.failed"}, "failed"),
        ({"type": "response.completed", "response": None}, "completed"),
    ],
)  # fmt: skip
def test_q41_terminal_events(end, ending):
    answer = stream(text_delta("a"), end=end)
    assert answer.ending == ending
    if ending == "failed":
        assert answer.error["message"]


def test_q41_failed_with_its_error():
    error = {"code": "rate_limit_exceeded", "message": "slow down"}
    assert stream(end=completed(type="failed", error=error)).error == error
    odd = stream(end={"type": "response.failed", "error": "boom"})
    assert odd.error["message"] == "boom"


def test_q42_created_and_queued_say_nothing():
    answer = stream(
        event("created", response={"id": "r"}),
        event("queued"),
        event("in_progress", response={"output": []}),
        event("in_progress"),
        text_delta("a"),
    )
    assert answer.events[0]["type"] == "response.output_item.added"


def test_q43_nothing_of_the_echo_goes_on():
    answer = stream(text_delta("a"), end=completed(tools=[{"name": "ns__private"}]))
    assert set(answer.terminal["response"]) == {"usage"}


def test_q27_ollama_gives_one_index_to_two_items():
    answer = stream(
        added(message(), output_index=0),
        text_delta("a", item_id="msg_1", output_index=0),
        added(call(), output_index=0),
        args_delta("{}", item_id="fc_1", output_index=0),
        done(call("{}"), output_index=0),
        text_delta("b", item_id="msg_1", output_index=0),
        end=completed(),
    )
    kinds = [item["type"] for item in answer.items]
    assert kinds == ["message", "function_call", "message"]


def test_two_messages_stay_two():
    answer = stream(
        added(message(phase="commentary"), output_index=0),
        text_delta("a", item_id="msg_1"),
        done(message("a", phase="commentary"), output_index=0),
        added(message(id="msg_2", phase="final_answer"), output_index=1),
        text_delta("b", item_id="msg_2"),
        done(message("b", id="msg_2"), output_index=1),
    )
    assert [item["phase"] for item in answer.items] == ["commentary", "final_answer"]


def test_messages_with_several_text_parts_become_one():
    item = message()
    item["content"] = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "bc"}]
    answer = stream(text_delta("a", content_index=0), text_delta("b", content_index=1), done(item))
    assert answer.text == "abc"


def test_annotations_and_logprobs():
    note = {"type": "url_citation", "url": "u"}
    probability = {"token": "a", "logprob": -0.1}
    streamed = stream(
        text_delta("a", logprobs=[probability]),
        event("output_text.annotation.added", annotation=note),
        event("output_text.annotation.added", annotation=None),
    )
    part = streamed.items[0]["content"][0]
    assert (part["annotations"], part["logprobs"]) == ([note], [probability])
    item = message("a")
    item["content"][0] |= {"annotations": [note], "logprobs": [probability]}
    final = stream(text_delta("a", logprobs=[probability]), done(item))
    assert final.items[0]["content"][0] == part


def test_deltas_of_no_use_are_skipped():
    answer = stream(text_delta(""), event("output_text.delta"), added(None), done(None))
    assert answer.items == []


def test_items_without_a_type():
    nameless = {"name": "f", "call_id": "c", "arguments": "{}"}
    answer = stream(done({"content": [{"text": "a"}]}), done(nameless))
    assert (answer.text, answer.calls) == ("a", [("f", "{}")])


# ---------------------------------------------------------------------------------------- foreign
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "in_progress"}


def test_foreign_items_pass_with_their_events():
    final = {**SEARCH, "status": "completed", "own": {"deep": [1]}}
    answer = stream(
        text_delta("a"),
        added(SEARCH, output_index=7),
        event("web_search_call.searching", item_id="ws_1", output_index=7, sequence_number=9),
        event("web_search_call.strange", output_index=7),
        done(final, output_index=7),
        event("web_search_call.late", item_id="ws_1", output_index=7),
        text_delta("b"),
        end=completed(final),
    )
    assert answer.items[1] == final
    passed = [e for e in answer.events if "web_search" in e["type"]]
    assert passed == [
        {"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws_1"},
        {"type": "response.web_search_call.strange", "output_index": 1},
        {"type": "response.web_search_call.late", "item_id": "ws_1"},
    ]


def test_foreign_items_whole_or_never_finished():
    whole = stream(end=completed(SEARCH))
    assert whole.items == [SEARCH]
    assert stream(added(SEARCH)).items == [SEARCH]
    broken = read_responses(sse(added(SEARCH)))
    assert broken.items[0]["status"] == "incomplete"


def test_foreign_items_wait_their_turn():
    answer = stream(
        added(call(), output_index=0),
        args_delta('{"a":', item_id="fc_1"),
        added(SEARCH, output_index=1),
        event("web_search_call.searching", item_id="ws_1", output_index=1),
        done(SEARCH, output_index=1),
        text_delta("a"),
        args_delta("1}", item_id="fc_1"),
    )
    kinds = [item["type"] for item in answer.items]
    assert kinds == ["function_call", "web_search_call", "message"]


def test_unknown_events_of_no_item_pass():
    answer = stream(event("rate_limits.updated", limits=[1], sequence_number=4), text_delta("a"))
    assert answer.events[0] == {"type": "response.rate_limits.updated", "limits": [1]}


def test_a_custom_tool_call_passes_as_foreign():
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "p", "input": ""}
    final = {**item, "input": "x"}
    for delta in ("custom_tool_call_input", "function_call_arguments"):  # vLLM, LiteLLM
        answer = stream(
            added(item, output_index=0),
            event(f"{delta}.delta", delta="x", item_id="ctc_1", output_index=0),
            event(f"{delta}.done", item_id="ctc_1", output_index=0),
            done(final, output_index=0),
        )
        assert answer.items == [final]


def test_a_chat_answer_is_not_understood():
    chunk = {"choices": [{"delta": {"content": "a"}}]}
    answer = read_responses(sse(chunk, [1], "{broken"))
    assert "choices" in answer.error["message"]


def test_a_namespace_is_kept():
    item = {**call("{}"), "namespace": "mcp__github__"}
    assert stream(added(item), done(item)).items[0]["namespace"] == "mcp__github__"


def test_usage_is_completed():
    answer = stream(end=completed())
    assert answer.usage is not None
    assert answer.usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert stream(end={"type": "response.completed", "response": {}}).usage is None


def test_calls_are_done_as_soon_as_the_upstream_says_so():
    reader = ResponsesReader(Profile(), SSE)
    reader.feed(sse(added(call()), args_delta("{}")))
    events = reader.feed(sse(done(call("{}"))))
    assert [e["type"] for e in events] == ["response.output_item.done"]
