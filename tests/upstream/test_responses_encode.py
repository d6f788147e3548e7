"""Bodies for /responses of servers that know function tools only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import load_profile, profile_names
from gateway.upstream.responses_stream import ResponsesReader
from tests.upstream.lowered_requests import (
    FILE,
    IMAGE,
    assistant,
    call,
    encode,
    function,
    input_of,
    lowered,
    message,
    output,
    reasoning,
    user,
)
from tests.upstream.test_chat import EVERYTHING

VLLM = "vllm"
USER = {"type": "message", "role": "user", "content": "a"}


def responses(profile, request, **overrides):
    return encode(profile, request, dialect="responses", **overrides)


def refused(*items, profile=VLLM, **overrides):
    with pytest.raises(RequestError) as raised:
        input_of(profile, *items, **overrides)
    return raised.value.message


def test_its_path_and_its_reader():
    dialect = make_dialect(load_profile("openai"))
    assert dialect.path == "/responses"
    assert isinstance(dialect.reader("text/event-stream"), ResponsesReader)


def test_q44_a_body_holds_only_what_the_profile_allows():
    tools = {"tools": [function()], "tool_choice": "auto"}
    request = lowered(user("a"), instructions="i", previous_response_id="r", **tools, **EVERYTHING)
    body = responses("default", request)
    assert list(body) == [
        *("model", "stream", "temperature", "top_p", "presence_penalty", "frequency_penalty"),
        *("stop", "seed", "max_output_tokens", "reasoning"),
        *("tools", "tool_choice", "parallel_tool_calls", "instructions", "input"),
    ]
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}


def test_q44_openai_gets_what_it_defined_and_stores_nothing():
    body = responses("openai", lowered(user("a"), **EVERYTHING))
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["text"] == {"verbosity": "low"}
    assert body["truncation"] == "auto"
    assert "previous_response_id" not in body


def test_q44_a_profile_without_blobs_asks_for_none():
    body = responses("openai", lowered(user("a")), item_fields=[])
    assert "include" not in body


def test_an_output_format_stays_flat():
    text = {"format": {"type": "json_schema", "name": "n", "schema": {}}}
    assert responses(VLLM, lowered(user("a"), text=text))["text"] == text


def test_an_effort_that_is_unknown_is_left_out():
    reasons = {"effort": "none", "summary": None}
    assert responses(VLLM, lowered(user("a"), reasoning=reasons))["reasoning"] == {}


@pytest.mark.parametrize("stream", [True, False])
def test_stream_is_always_said(stream):
    assert responses("transformers", {**lowered(user("a")), "stream": stream})["stream"] is stream


def test_q45_system_text_is_the_instructions():
    request = lowered(message("developer", "b"), user("a"), instructions="i")
    body = responses(VLLM, request)
    assert body["instructions"] == "i\n\nb"
    assert body["input"] == [USER]


def test_q45_system_text_is_a_message_where_instructions_are_lost():
    body = responses("transformers", lowered(user("a"), instructions="i"))
    assert "instructions" not in body
    assert body["input"] == [{"type": "message", "role": "system", "content": "i"}, USER]


def test_q45_openai_keeps_system_messages_as_they_were():
    request = lowered(message("developer", "b"), user("a"), message("developer", "c"))
    body = responses("openai", {**request, "instructions": "i"})
    assert body["instructions"] == "i"
    assert [item["role"] for item in body["input"]] == ["developer", "user", "developer"]
    assert "instructions" not in responses("openai", request)
    body = responses("openai", lowered(message("system", "s"), user("a")))
    assert "instructions" not in body


def test_q45_system_text_can_be_the_users():
    body = responses(VLLM, lowered(user("a"), instructions="i"), system="user")
    assert [item["role"] for item in body["input"]] == ["user", "user"]


def test_q46_outputs_stand_behind_their_calls():
    items = input_of(VLLM, user("a"), call("1"), call("2"), user("b"), output("2"), output("1"))
    kinds = [item.get("call_id", item.get("role")) for item in items]
    assert kinds == ["user", "1", "2", "1", "2", "user"]


def test_q46_a_call_without_output_is_refused():
    assert refused(user("a"), call("1")) == "No tool output found for function call 1."


def test_q49_outputs_are_strings_and_images_follow():
    items = input_of(VLLM, user("a"), call("1"), output("1", [IMAGE]))
    assert items[2]["output"] == "[image 1: in the next user message]"
    assert items[3]["content"][1] == IMAGE


def test_q49_openai_takes_parts():
    items = input_of("openai", user("a"), call("1"), output("1", [IMAGE, FILE]))
    assert items[2]["output"] == [IMAGE, FILE]


def test_q49_what_the_server_cannot_see_is_refused():
    assert refused(user(IMAGE), profile="ds4") == "This model server takes no images."
    assert refused(user(FILE)).startswith("This model server takes no files")


def test_q50_ids_are_mapped_here_too():
    items = input_of("mistral", user("a"), call("call_1"), output("call_1"))
    assert items[1]["call_id"] == items[2]["call_id"]
    assert len(items[1]["call_id"]) == 9


def test_q54_strict_is_explicit_since_llama_cpp_takes_its_absence_for_true():
    body = responses("llamacpp", lowered(user("a"), tools=[function()]))
    assert body["tools"][0] == {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
        "strict": False,
    }


def test_q55_a_named_tool_is_sent_alone_to_llama_cpp():
    tools = [function("f"), function("g")]
    choice = {"type": "function", "name": "g"}
    body = responses("llamacpp", lowered(user("a"), tools=tools, tool_choice=choice))
    assert [tool["name"] for tool in body["tools"]] == ["g"]
    assert body["tool_choice"] == "required"
    assert responses(VLLM, lowered(user("a"), tools=tools, tool_choice=choice))["tool_choice"] == (
        choice
    )


def test_q56_parallel_tool_calls_is_only_said_to_servers_that_know_it():
    request = lowered(user("a"), tools=[function()], parallel_tool_calls=False)
    assert responses(VLLM, request)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in responses("ollama", request)


def test_hosted_tools_only_go_to_a_server_that_knows_them():
    request = lowered(user("a"), tools=[{"type": "web_search"}, function()], tool_choice="required")
    body = responses("openai", request)
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert body["tool_choice"] == "required"
    with pytest.raises(RequestError, match="Tools of type 'web_search'"):
        responses(VLLM, request)


def test_q60_arguments_are_the_text_of_an_object():
    items = input_of(VLLM, user("a"), call("1", "f", "[1"), output("1"))
    assert items[1]["arguments"] == '{"_raw":"[1"}'


def test_q61_items_carry_no_status_and_no_id():
    items = input_of(
        VLLM,
        {**user("a"), "id": "msg_1", "status": "completed"},
        {**call("1"), "id": "fc_1", "status": "incomplete", "namespace": "n", "async": None},
        {**output("1"), "id": "fco_1", "status": "completed"},
        {**assistant("b"), "id": "msg_2", "status": "incomplete", "phase": "commentary"},
        user("c"),
    )
    keys = {"type", "role", "content", "call_id", "name", "arguments", "output"}
    assert all(set(item) <= keys for item in items)


def test_q61_a_profile_may_keep_fields():
    said = assistant({"type": "output_text", "text": "b"})
    items = input_of("openai", user("a"), {**said, "id": "m", "phase": "commentary"})
    assert items[1] == {**said, "phase": "commentary"}


def test_q62_foreign_blobs_are_left_out_and_text_stays():
    items = input_of(
        "llamacpp",
        user("a"),
        reasoning("hm", id="rs_x", encrypted_content="gAAA", status="completed"),
        reasoning("", id="rs_y", encrypted_content="gAAA"),
        {"type": "reasoning", "id": "rs_z", "summary": [{"type": "summary_text", "text": "so"}]},
        assistant("b"),
        user("c"),
    )
    assert [item for item in items if item["type"] == "reasoning"] == [
        {
            "type": "reasoning",
            "id": f"rs_{number}",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": text}],
        }
        for number, text in ((1, "hm"), (2, "so"))
    ]


def test_q62_openai_gets_its_own_blobs_back():
    own = reasoning("", id="rs_x", encrypted_content="gAAA", status="completed")
    items = input_of("openai", user("a"), own, assistant("b"))
    assert items[1] == {
        "type": "reasoning",
        "summary": [],
        "content": None,
        "encrypted_content": "gAAA",
    }


def test_q62_reasoning_can_be_left_out():
    items = input_of(VLLM, user("a"), reasoning("hm"), assistant("b"), reasoning_items="drop")
    assert [item["type"] for item in items] == ["message"] * 3


def test_the_assistants_words_are_output_text():
    items = input_of("llamacpp", user("a"), assistant("b"), assistant(""), user("c"))
    assert items[1] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "b"}],
    }
    assert [item["role"] for item in items] == ["user", "assistant", "user"]


def test_parts_of_the_user_are_input_parts():
    part = {"type": "output_text", "text": "x", "annotations": []}
    items = input_of(VLLM, user(part, IMAGE), user(""))
    assert items == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}, IMAGE]}
    ]


def test_a_role_that_does_not_exist_is_refused():
    assert refused(message("critic", "a")) == "Messages of role 'critic' are not supported."


def test_the_last_item_is_not_the_models():
    more = {"type": "message", "role": "user", "content": "Continue."}
    assert input_of(VLLM, user("a"), assistant("b"))[-1] == more
    assert input_of(VLLM, user("a"), reasoning("b"))[-1] == more
    assert responses(VLLM, lowered(instructions="i"))["input"] == [more]
    assert input_of(VLLM, user("a"), assistant("b"), continue_text="")[-1]["role"] == "assistant"


def test_nothing_to_answer_is_refused():
    assert refused() == "There is nothing to answer: 'input' is empty."


@pytest.mark.parametrize("profile", [name for name in profile_names() if name != "openai"])
def test_records_of_hosted_calls_become_notes(profile):
    items = input_of(profile, user("a"), {"type": "web_search_call", "id": "ws"}, user("b"))
    assert items[1]["content"] == [{"type": "output_text", "text": "[web_search_call] {}"}]


def test_unknown_items_pass_refuse_or_become_notes():
    item = {"type": "acme:thing", "id": "x", "n": 1}
    assert input_of("openai", user("a"), item, user("b"))[1] == item
    assert refused(user("a"), item).startswith("Items of type 'acme:thing'")
    assert input_of(VLLM, user("a"), item, unknown_items="note")[1]["role"] == "user"


def test_an_item_reference_is_refused_everywhere():
    reference = {"type": "item_reference", "id": "x"}
    assert "cannot be resolved" in refused(user("a"), reference, profile="openai")


def test_a_foreign_item_among_calls_joins_their_turn():
    items = input_of("openai", user("a"), call("1"), {"type": "acme:thing"}, output("1"))
    assert [item["type"] for item in items][1:3] == ["function_call", "acme:thing"]


@given(st.lists(st.text(max_size=8), min_size=2, max_size=5), st.sampled_from(profile_names()))
def test_identical_history_is_an_identical_byte_prefix(texts, name):
    dialect = make_dialect(load_profile(name, {"dialect": "responses"}))
    items: list = []
    before = b""
    for number, text in enumerate(texts):
        items += [user(f"u{text}")]
        body = dialect.encode(lowered(*items, instructions="i"))
        assert body.startswith(before)
        assert dialect.encode(lowered(*items, instructions="i")) == body
        before = body.removesuffix(b"]}")
        call_id = f"call_{number}"
        items += [reasoning(text), assistant(text), call(call_id, "f", text), output(call_id, text)]
