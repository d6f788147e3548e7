"""ChatReader: one test for each quirk of Chat Completions servers that concerns reading."""

import json

import pytest

from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.wire import sse as wire_sse
from tests.upstream.streams import (
    SSE,
    body,
    call,
    chat,
    delta,
    read_chat,
    sse,
)

USAGE = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
JSON_TYPE = "application/json"


# ------------------------------------------------------------------------------- framing, Q1 to Q10
def test_q01_bytes_may_be_cut_anywhere():
    stream = b"\xef\xbb\xbf" + sse(delta(content="Grüße, 世界 🎉"), delta("stop"), done=True)
    for line_end in (b"\n", b"\r\n", b"\r"):
        raw = stream.replace(b"\n", line_end)
        for cut in range(len(raw)):
            answer = read_chat(raw[:cut], raw[cut:])
            assert answer.text == "Grüße, 世界 🎉"
            assert answer.ending == "completed"


def test_q01_data_over_several_lines():
    stream = (
        b'data: {"choices":\ndata: [{"delta":{"content":"a"},\ndata: "finish_reason":"stop"}]}\n\n'
    )
    assert read_chat(stream).text == "a"


def test_q02_comments_are_no_events():
    stream = b": prefill\n\n:\n\n" + sse(delta(content="a")) + b": keepalive 3/9\n\n"
    answer = read_chat(stream + sse(delta("stop"), done=True))
    assert answer.text == "a"
    assert answer.notes == []


def test_q03_an_event_line_changes_nothing():
    stream = b"event: message\n" + sse(delta(content="a")) + sse(delta("stop"))
    assert read_chat(stream).text == "a"


@pytest.mark.parametrize(
    ("payload", "code", "message"),
    [
        ({"error": {"code": 500, "message": "boom", "type": "x"}}, "server_error", "boom"),
        ({"error": "boom"}, "server_error", "boom"),
        ({"object": "error", "message": "boom", "code": 400}, "server_error", "boom"),
        ({"error": {"message": "boom", "code": "overloaded"}, "choices": []}, "overloaded", "boom"),
        ({"error": {"message": "boom"}, "choices": [{"delta": {}}]}, "server_error", "boom"),
        ({"detail": "boom"}, "server_error", "boom"),
    ],
)
def test_q04_an_error_object_ends_the_answer(payload, code, message):
    answer = chat(delta(content="so far"), payload, delta(content="never"))
    assert answer.error == {"code": code, "message": message}
    assert answer.items[0]["status"] == "incomplete"
    assert answer.text == "so far"


def test_q05_done_is_optional():
    assert chat(delta(content="a"), done=False).ending == "completed"
    assert chat(delta(content="a"), done=True).ending == "completed"


def test_q05_done_without_a_finish_reason_is_an_end():
    assert chat(delta(content="a"), finish=None).ending == "completed"


def test_q05_eof_without_finish_fails():
    answer = chat(delta(content="a"), finish=None, done=False)
    assert answer.ending == "failed"
    assert "stream ended early" in answer.error["message"]
    assert answer.items[0]["status"] == "incomplete"


@pytest.mark.parametrize("stream", [b"", b": prefill\n\n", sse(done=True), b"\n\n"])
def test_q05_no_answer_at_all_fails(stream):
    answer = read_chat(stream)
    assert "stream ended early" in answer.error["message"]


def test_q05_nothing_behind_done_counts():
    answer = read_chat(sse(delta("stop", content="a"), done=True) + sse(delta(content="b"), USAGE))
    assert answer.text == "a"


def test_q06_a_page_instead_of_an_answer():
    page = b"<html><head><title>502 Bad Gateway</title></head><body>no</body></html>"
    answer = read_chat(page, content_type="text/html")
    assert answer.error["message"] == "The upstream answered HTML (502 Bad Gateway)."
    assert read_chat(b"try later", content_type="text/plain").error["message"] == "try later"


def test_q07_groq_says_what_the_model_wrote():
    error = {
        "message": "Failed to call a function.",
        "code": "tool_use_failed",
        "failed_generation": '{"name": "shell", "arguments": {',
    }
    answer = chat({"error": error})
    assert answer.error["code"] == "tool_use_failed"
    assert error["failed_generation"] in answer.error["message"]


@pytest.mark.parametrize("content_type", [JSON_TYPE, SSE, ""])
def test_q08_an_error_body_instead_of_a_stream(content_type):
    raw = json.dumps({"error": "model is busy"}).encode()
    assert read_chat(raw, content_type=content_type).error["message"] == "model is busy"


def test_q08_a_body_that_means_nothing_is_shown():
    answer = read_chat(b'{"status": "warming up"}', content_type=JSON_TYPE)
    assert "warming up" in answer.error["message"]
    assert "expected" not in read_chat(b'["a"]', content_type=JSON_TYPE).error["message"]


@pytest.mark.parametrize("content_type", [JSON_TYPE, SSE, ""])
def test_q09_the_first_bytes_tell_what_it_is(content_type):
    whole = body({"role": "assistant", "content": "a"}, usage=USAGE)
    stream = sse(delta("stop", content="a"), done=True)
    for raw in (whole, b"\n " + whole, stream):
        answer = read_chat(raw, content_type=content_type)
        assert (answer.text, answer.ending) == ("a", "completed")


def test_q10_chunks_without_choices():
    answer = chat(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},  # Azure
        delta(content="a"),
        delta("stop"),
        {"choices": [], "usage": USAGE},
        finish=None,
    )
    assert answer.text == "a"
    assert answer.usage is not None
    assert answer.usage["total_tokens"] == 14
    assert answer.notes == []


# --------------------------------------------------------------------------------- usage, Q11 to Q12
def test_q11_the_last_usage_counts():
    first, last = {**USAGE, "completion_tokens": 1}, USAGE
    answer = chat({**delta(content="a"), "usage": first}, {**delta("stop"), "usage": last})
    assert answer.usage is not None
    assert answer.usage["output_tokens"] == 4


def test_q11_null_usage_does_not_count():
    answer = chat({**delta(content="a"), "usage": USAGE}, {**delta("stop"), "usage": None})
    assert answer.usage is not None


@pytest.mark.parametrize(
    "chunk",
    [
        {**delta("stop"), "timings": {"prompt_n": 3, "cache_n": 7, "predicted_n": 4}},
        {**delta("stop"), "x_groq": {"usage": USAGE}},
        {"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]},  # Moonshot
    ],
)
def test_q11_usage_in_odd_places(chunk):
    answer = chat(delta(content="a"), chunk)
    assert answer.usage is not None
    assert (answer.usage["input_tokens"], answer.usage["output_tokens"]) == (10, 4)


def test_q11_no_usage_is_none():
    odd = {**delta(), "x_groq": "id", "timings": []}
    assert chat(delta(content="a"), odd).usage is None


def test_q12_details_are_filled():
    details = {"prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": 3}}
    answer = chat({**delta(content="a"), "usage": USAGE | details})
    assert answer.usage == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 14,
    }


# --------------------------------------------------------------------------------- finish, Q13 to Q17
@pytest.mark.parametrize(
    ("reason", "ending"),
    [
        ("stop", "completed"),
        ("STOP", "completed"),
        ("tool_calls", "completed"),
        ("function_call", "completed"),
        ("eos_token", "completed"),
        ("stop_sequence", "completed"),
        ("length", "max_output_tokens"),
        ("MAX_TOKENS", "max_output_tokens"),
        ("model_length", "max_output_tokens"),
        ("content_filter", "content_filter"),
        ("error", "failed"),
        ("abort", "failed"),
    ],
)
def test_q13_finish_reasons(reason, ending):
    answer = chat(delta(content="a"), finish=reason)
    assert answer.ending == ending
    assert answer.notes == []


def test_q13_unknown_reason_is_clean_but_noted():
    answer = chat(delta(content="a"), finish="because")
    assert answer.ending == "completed"
    assert "because" in answer.notes[0]
    cut = chat(call('{"a":', index=0, id="x", name="f"), finish="because")
    assert cut.ending == "max_output_tokens"


def test_q13_empty_reasons_are_absent():
    answer = chat(delta("", content="a"), delta("", content="b"))
    assert answer.text == "ab"
    assert answer.ending == "completed"


def test_q14_calls_decide_not_the_reason():
    assert chat(call("{}", index=0, id="x", name="f"), finish="stop").calls == [("f", "{}")]
    assert chat(delta(content="a"), finish="tool_calls").items[0]["type"] == "message"


def test_q15_the_last_delta_comes_with_the_reason():
    assert chat(delta(content="a"), delta("length", content="b"), finish=None).text == "ab"


def test_q16_a_call_cut_by_length():
    answer = chat(call('{"input": "*** Beg', index=0, id="x", name="f"), finish="length")
    assert answer.ending == "max_output_tokens"
    assert answer.items[0]["status"] == "incomplete"
    assert answer.items[0]["arguments"] == '{"input": "*** Beg'


def test_q16_a_call_that_length_did_not_cut():
    answer = chat(call('{"a":1}', index=0, id="x", name="f"), finish="length")
    assert answer.items[0]["status"] == "completed"
    assert answer.ending == "max_output_tokens"


def test_q16_a_name_without_arguments_cut_by_length():
    answer = chat(call(index=0, id="x", name="f"), finish="length")
    assert (answer.items[0]["arguments"], answer.items[0]["status"]) == ("", "incomplete")


def test_q17_clean_finish_with_cut_arguments():
    answer = chat(call('{"a": [1', index=0, id="x", name="f"), finish="tool_calls")
    assert answer.ending == "max_output_tokens"
    assert answer.items[0]["status"] == "incomplete"


def test_q17_malformed_arguments_pass_as_they_are():
    answer = chat(call('{"a": nope}', index=0, id="x", name="f"))
    assert answer.calls == [("f", '{"a": nope}')]
    assert answer.items[0]["status"] == "completed"


# ---------------------------------------------------------------------------------- calls, Q18 to Q26
def test_q18_no_index_by_id():
    answer = chat(
        call('{"a":', id="x", name="f"),
        call('{"b":', id="y", name="g"),
        call("1}", id="x"),
        call("2}", id="y"),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q18_no_index_no_id_continues_the_last_call():
    answer = chat(call('{"a"', id="x", name="f"), call(":1", index=None), call("}"))
    assert answer.calls == [("f", '{"a":1}')]


def test_q18_no_index_no_id_a_name_begins_a_new_call():
    answer = chat(call('{"a":1}', name="f"), call('{"a":2}', name="f"), call("{}", name="g"))
    assert answer.calls == [("f", '{"a":1}'), ("f", '{"a":2}'), ("g", "{}")]


def test_q18_another_name_inside_arguments_needs_no_index():
    answer = chat(call('{"a"', name="f"), call("{}", name="g"), call("}"), finish="length")
    assert answer.items[0]["name"] == "f"


def test_q18_index_appears_only_later():
    answer = chat(call(id="x", name="f"), call('{"a":', index=0), call("1}", index=0))
    assert answer.calls == [("f", '{"a":1}')]


def test_q18_whole_calls_without_index_or_id_in_one_message():
    entry = {"function": {"name": "f", "arguments": "{}"}}
    raw = body({"content": "", "tool_calls": [entry, entry, "odd"]}, "tool_calls")
    answer = read_chat(raw, content_type=JSON_TYPE)
    assert answer.calls == [("f", "{}"), ("f", "{}")]
    assert "str" in answer.notes[0]


def test_q19_every_call_has_index_zero():
    answer = chat(
        call('{"a":1}', index=0, id="x", name="f"),
        call('{"b":', index=0, id="y", name="f"),
        call("2}", index=0),
    )
    assert answer.calls == [("f", '{"a":1}'), ("f", '{"b":2}')]


def test_q19_index_zero_and_known_ids():
    answer = chat(
        call('{"a":', index=0, id="x", name="f"),
        call('{"b":', index=0, id="y", name="g"),
        call("1}", index=0, id="x"),
        call("2}", index=0, id="y"),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q20_empty_ids_and_names_mean_nothing():
    answer = chat(
        call('{"a":', index=0, id="x", name="f"),
        call("1", index=0, id="", name=""),
        delta(tool_calls=[{"index": 0, "id": None, "function": {"name": None, "arguments": "}"}}]),
    )
    assert answer.calls == [("f", '{"a":1}')]
    assert answer.items[0]["call_id"] == "x"


def test_q21_id_late_or_never():
    late = chat(call(index=0, name="f"), call(index=0, id="x"), call("{}", index=0))
    assert late.items[0]["call_id"] == "x"
    too_late = chat(call('{"a":', index=0, name="f"), call("1}", index=0, id="x"))
    assert too_late.calls == [("f", '{"a":1}')]
    never = chat(call('{"a":1}', index=0, name="f"))
    assert never.items[0]["call_id"] == ""


def test_q21_late_id_without_index():
    answer = chat(call('{"a":', name="f"), call("1}", id="x"))
    assert answer.calls == [("f", '{"a":1}')]


def test_q21_name_behind_the_arguments():
    answer = chat(call('{"a":', index=0, id="x"), call("1}", index=0), call(index=0, name="f"))
    assert answer.calls == [("f", '{"a":1}')]
    nameless = chat(call('{"a":1}', index=0, id="x"))
    assert nameless.calls == [("", '{"a":1}')]
    assert nameless.notes == ["a call came without a name"]


def test_q22_equal_ids_of_two_calls():
    by_index = chat(
        call('{"a":1}', index=0, id="x", name="f"), call('{"a":2}', index=1, id="x", name="f")
    )
    assert by_index.calls == [("f", '{"a":1}'), ("f", '{"a":2}')]
    by_name = chat(call('{"a":1}', id="x", name="f"), call('{"a":2}', id="x", name="g"))
    assert by_name.calls == [("f", '{"a":1}'), ("g", '{"a":2}')]


@pytest.mark.parametrize("names", [["foo", "foo", "foo"], ["f", "oo", ""], ["f", "fo", "foo"]])
def test_q23_name_repeated_split_or_growing(names):
    first, *rest = names
    answer = chat(
        call(index=0, id="x", name=first),
        *(call(index=0, id="x", name=more) for more in rest),
        call('{"a":', index=0, id="x", name=names[-1]),
        call("1}", index=0, id="x", name=names[-1]),
    )
    assert answer.calls == [("foo", '{"a":1}')]


def test_q24_arguments_missing_null_object_or_empty():
    assert chat(call(index=0, id="x", name="f")).calls == [("f", "{}")]
    assert chat(call("", index=0, id="x", name="f")).calls == [("f", "{}")]
    assert chat(call(" ", index=0, id="x", name="f")).calls == [("f", " {}")]
    assert chat(call({"a": 1}, index=0, id="x", name="f")).calls == [("f", '{"a":1}')]
    null = {"index": 0, "id": "x", "function": {"name": "f", "arguments": None}}
    assert chat(delta(tool_calls=[null])).calls == [("f", "{}")]
    assert chat(call(index=0, id="x", name="f"), call("", index=0)).calls == [("f", "{}")]


def test_q24_tgi_sends_one_object():
    entry = {"index": 0, "id": "0", "function": {"name": "f", "arguments": {"a": 1}}}
    assert chat(delta(tool_calls=entry), finish="eos_token").calls == [("f", '{"a":1}')]


def test_q24_flat_and_legacy_entries():
    flat = {"index": 0, "id": "x", "name": "f", "arguments": "{}"}
    assert chat(delta(tool_calls=[flat])).calls == [("f", "{}")]
    legacy = chat(
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"a":'}),
        delta(function_call={"arguments": "1}"}),
        finish="function_call",
    )
    assert legacy.calls == [("f", '{"a":1}')]


def test_q24_odd_types_do_not_crash():
    entry = {"index": "0", "id": 7, "function": {"name": 1, "arguments": 5}}
    assert chat(delta(tool_calls=[entry])).calls == [("", "5")]


@pytest.mark.parametrize(
    "snapshots",
    [
        ["{", '{"a":', '{"a": 1', '{"a": 1}', '{"a": 1}'],
        ['{"a":', '{"a": 1', '{"a": 1}'],  # might be a nested object at first
        ['{"a":', '{"a": 1}'],
        ['{"a": 1}', '{"a": 1}'],
    ],
)
def test_q25_cumulative_snapshots(snapshots):
    chunks = [call(text, index=0) for text in snapshots]
    assert chat(call(index=0, id="x", name="f"), *chunks).calls == [("f", '{"a": 1}')]


def test_q25_a_nested_object_is_no_snapshot():
    answer = chat(call(index=0, id="x", name="f"), call('{"a":', index=0), call('{"a":1}', index=0))
    more = chat(
        call(index=0, id="x", name="f"),
        *(call(text, index=0) for text in ('{"a":', '{"a":1}', "}")),
    )
    assert more.calls == [("f", '{"a":{"a":1}}')]
    assert answer.calls == [("f", '{"a":1}')]


def test_q25_whole_or_by_token_is_the_same():
    text = json.dumps({"input": "line\n" * 5})
    whole = chat(call(text, index=0, id="x", name="f"))
    tokens = chat(call(index=0, id="x", name="f"), *(call(char, index=0) for char in text))
    assert whole.calls == tokens.calls == [("f", text)]
    assert len(tokens.deltas) == len(text)


def test_q26_interleaved_parallel_calls():
    answer = chat(
        call('{"a":', index=0, id="x", name="f"),
        call('{"b":', index=1, id="y", name="g"),
        call("1}", index=0),
        call("2}", index=1),
    )
    assert answer.calls == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_q26_a_finished_call_is_done_when_the_next_begins():
    reader = ChatReader(Profile(), SSE)
    reader.feed(sse(call('{"a":1}', index=0, id="x", name="f")))
    events = reader.feed(sse(call(index=1, id="y", name="g")))
    assert [event["type"] for event in events] == ["response.output_item.done"]


def test_q27_text_behind_a_call_is_a_new_item():
    answer = chat(
        delta(content="before"), call("{}", index=0, id="x", name="f"), delta(content="behind")
    )
    assert [item["type"] for item in answer.items] == ["message", "function_call", "message"]


def test_q28_raw_control_characters_in_arguments():
    answer = chat(call('{"input": "a\nb\tc"}', index=0, id="x", name="f"))
    assert answer.calls == [("f", '{"input": "a\nb\tc"}')]
    assert answer.ending == "completed"


def test_q28_raw_control_characters_in_the_chunk_itself():
    raw = b'data: {"choices":[{"delta":{"content":"a\tb"},"finish_reason":"stop"}]}\n\n'
    assert read_chat(raw).text == "a\tb"


def test_q29_invalid_escapes_are_no_cut():
    answer = chat(call(r'{"input": "\d+\."}', index=0, id="x", name="f"))
    assert answer.calls == [("f", r'{"input": "\d+\."}')]
    assert answer.ending == "completed"


def test_q30_escapes_split_over_deltas():
    text = r'{"input": "a\n\ud83c\udf89\\"}'
    answer = chat(call(index=0, id="x", name="f"), *(call(char, index=0) for char in text))
    assert answer.calls == [("f", text)]


def test_q30_half_a_surrogate_pair_in_a_chunk():
    raw = rb'data: {"choices":[{"delta":{"content":"a\ud83c"},"finish_reason":"stop"}]}' + b"\n\n"
    assert read_chat(raw).text == "a\ufffd"


# ------------------------------------------------------------------------------ content, Q33 to Q36
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_q33_reasoning_fields(field):
    answer = chat(delta(**{field: "why"}), delta(**{field: " so"}), delta(content="a"))
    assert (answer.reasoning, answer.text) == ("why so", "a")
    assert [item["type"] for item in answer.items] == ["reasoning", "message"]


def test_q33_reasoning_fields_by_profile():
    answer = chat(delta(reasoning="why", content="a"), reasoning_in=("reasoning_content",))
    assert answer.reasoning == ""


def test_q33_reasoning_details():
    details = [
        {"type": "reasoning.text", "text": "why"},
        {"type": "reasoning.encrypted", "data": "blob"},
        {"type": "reasoning.summary", "summary": "short"},
    ]
    answer = chat(delta(reasoning_details=details, content="a"))
    assert answer.items[0]["content"] == [{"type": "reasoning_text", "text": "why"}]
    assert answer.items[0]["summary"] == [{"type": "summary_text", "text": "short"}]


def test_q33_think_tags_split_anywhere():
    text = " <think>\nwhy</thin></think>\n\na <think>b</think>"
    for cut in range(len(text)):
        answer = chat(delta(content=text[:cut]), delta(content=text[cut:]), think_tags=True)
        assert answer.reasoning == "\nwhy</thin>"
        assert answer.text == "a <think>b</think>"
    by_char = chat(*(delta(content=char) for char in text), think_tags=True)
    assert by_char.text == "a <think>b</think>"


def test_q33_think_tags_only_at_the_start_and_only_by_profile():
    assert chat(delta(content="<think>why</think>a")).text == "<think>why</think>a"
    assert chat(delta(content="a<think>b</think>"), think_tags=True).text == "a<think>b</think>"
    assert chat(delta(content="<thi"), delta(content="s>"), think_tags=True).text == "<this>"


def test_q33_think_tags_that_never_close():
    assert chat(delta(content="<think>why</th"), think_tags=True).reasoning == "why</th"
    held = chat(delta(content="<thi"), call("{}", index=0, id="x", name="f"), think_tags=True)
    assert (held.text, held.calls) == ("<thi", [("f", "{}")])
    assert chat(delta(content="<think>why</think>\n"), think_tags=True).text == ""


def test_q34_both_reasoning_fields_count_once():
    twice = delta(reasoning="why", reasoning_content="why")
    assert chat(twice, delta(content="a")).reasoning == "why"
    null = delta(reasoning_content=None, reasoning="why")
    assert chat(null, delta(content="a")).reasoning == "why"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("", ""),
        ("a", "a"),
        ([{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}], "ab"),
        ([{"text": "a"}, "b", None], "ab"),
        ({"type": "text", "text": "a"}, "a"),
        ([{"type": "text", "text": {"text": "a"}}], "a"),
        ([5, {"type": "text"}, {"type": "reasoning", "reasoning": ""}], ""),
    ],
)
def test_q35_content_of_every_kind(content, text):
    answer = chat(delta(content=content))
    assert answer.text == text
    assert answer.notes == []


def test_q35_mistral_thinks_in_its_content():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "why"}]}
    answer = chat(delta(content=[thinking]), delta(content=[{"type": "text", "text": "a"}]))
    assert (answer.reasoning, answer.text) == ("why", "a")


def test_q35_unknown_parts_are_noted():
    answer = chat(delta(content=[{"type": "audio"}, {"type": 3}, {"type": "text", "text": "a"}]))
    assert answer.text == "a"
    assert "audio" in answer.notes[0]


def test_q35_refusals_are_a_part_of_their_own():
    answer = chat(delta(content="a"), delta(refusal="no"), delta(refusal=" way"))
    assert [part["type"] for part in answer.items[0]["content"]] == ["output_text", "refusal"]
    assert answer.items[0]["content"][1]["refusal"] == "no way"
    behind = chat(delta(refusal="no"), delta(content="but"))
    assert len(behind.items) == 2


def test_q36_roles_are_ignored():
    answer = chat(delta(role="assistant"), delta(content="a"), delta(role="tool", content="b"))
    assert len(answer.items) == 1
    assert answer.text == "ab"


def test_q65_a_leaked_call_stays_visible():
    leaked = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    assert chat(delta(content=leaked)).text == leaked


# ---------------------------------------------------------------------------------------- the rest
def test_whole_answer_in_one_body():
    message = {
        "role": "assistant",
        "reasoning_content": "why",
        "content": "a",
        "refusal": None,
        "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": "{}"}}],
    }
    raw = body(message, "tool_calls", usage=USAGE)
    answer = read_chat(raw[:30], raw[30:], content_type=JSON_TYPE)
    assert [item["type"] for item in answer.items] == ["reasoning", "message", "function_call"]
    assert answer.usage is not None
    assert read_chat(body(message, None), content_type=JSON_TYPE).ending == "completed"


def test_a_last_message_that_repeats_the_stream_is_ignored():
    repeat = {"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert chat(delta(content="a"), delta(content="b"), repeat, finish=None).text == "ab"


def test_annotations_and_logprobs_are_kept():
    citation = {"type": "url_citation", "url_citation": {"url": "u", "title": "t"}}
    probability = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    chunk = delta(content="a", annotations=[citation, {"type": "x", "own": 1}, 7])
    chunk["choices"][0]["logprobs"] = {"content": [probability]}
    part = chat(chunk).items[0]["content"][0]
    assert part["logprobs"] == [probability]
    flat = {"type": "url_citation", "url": "u", "title": "t"}
    assert part["annotations"] == [flat, {"type": "x", "own": 1}, 7]


def test_unreadable_lines_are_noted_and_the_stream_goes_on():
    answer = chat(delta(content="a"), "{broken", "7", {"ping": 1}, {}, delta(content="b"))
    assert answer.text == "ab"
    assert len(answer.notes) == 4


def test_only_unreadable_lines_fail_with_words():
    answer = read_chat(sse("{broken"))
    assert "cannot be read" in answer.error["message"]


def test_odd_choices_do_not_crash():
    answer = chat({"choices": ["a"]}, {"choices": [{"delta": None}]}, delta(content="a"))
    assert answer.text == "a"
    assert "str" in answer.notes[0]


def test_an_event_without_end_fails(monkeypatch):
    monkeypatch.setattr(wire_sse.SSEDecoder.__init__, "__defaults__", (100,))
    fed = read_chat(b"data: " + b"x" * 300)
    assert "exceeds 100 bytes" in fed.error["message"]
    late = read_chat(b"dat", b"a: " + b"x" * 200 + b"\n")
    assert "exceeds 100 bytes" in late.error["message"]


def test_notes_are_limited():
    assert len(chat(*(["{broken"] * 50)).notes) == 20
