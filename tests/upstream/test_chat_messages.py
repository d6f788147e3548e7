"""Histories as chat messages: one test for each quirk of servers that concerns what they are sent."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.upstream.chat_messages import ChatThread, chat_messages
from gateway.upstream.dialect import make_dialect
from gateway.upstream.notes import MAX_NOTE_CHARS, NOTE_ROLES
from gateway.upstream.profiles import load_profile, profile_names
from gateway.upstream.replay import lead
from tests.upstream.lowered_requests import (
    FILE,
    IMAGE,
    PNG,
    assistant,
    call,
    encode,
    lowered,
    message,
    messages,
    output,
    reasoning,
    user,
)

DEFAULT = "default"


def roles(found):
    return [entry["role"] for entry in found]


def refused(*items, profile=DEFAULT, **overrides):
    with pytest.raises(RequestError) as raised:
        messages(profile, *items, **overrides)
    assert raised.value.status == 400
    assert raised.value.param == "input"
    return raised.value.message


# ------------------------------------------------------------------------------ Q45: system messages


def test_q45_instructions_and_leading_system_text_are_one_message():
    request = lowered(
        message("developer", "a", "b"), message("system", "c"), user("hi"), instructions="top"
    )
    assert encode(DEFAULT, request)["messages"] == [
        {"role": "system", "content": "top\n\na\nb\n\nc"},
        {"role": "user", "content": "hi"},
    ]


def test_q45_empty_system_text_leaves_no_trace():
    request = lowered(message("system", ""), message("developer"), user("hi"), instructions="")
    assert encode(DEFAULT, request)["messages"] == [{"role": "user", "content": "hi"}]


def test_q45_a_part_without_text_leaves_no_empty_system_message():
    assert messages(DEFAULT, message("developer", "", ""), user("hi"))[-1]["role"] == "user"


def test_q45_late_system_text_is_a_labelled_user_message():
    found = messages(DEFAULT, user("hi"), assistant("yo"), message("developer", "now"), user("go"))
    assert found[2] == {"role": "user", "content": "[developer message]\nnow"}
    assert roles(found) == ["user", "assistant", "user", "user"]


def test_q45_late_system_text_can_be_merged_up():
    found = messages(
        DEFAULT, user("hi"), message("developer", "now"), user("go"), late_system="merge"
    )
    assert found[0] == {"role": "system", "content": "now"}
    assert roles(found) == ["system", "user", "user"]


def test_q45_late_system_text_can_stay_but_splits_no_pair():
    found = messages(
        DEFAULT,
        user("hi"),
        call("1"),
        message("developer", "now"),
        output("1"),
        late_system="keep",
    )
    assert roles(found) == ["user", "assistant", "tool", "system", "user"]
    assert found[3]["content"] == "now"


def test_q45_system_messages_can_be_kept_apart_with_their_role():
    request = lowered(message("developer", "a"), message("system", "b"), user("hi"))
    found = encode(DEFAULT, {**request, "instructions": "top"}, system="keep", developer_role=True)
    assert roles(found["messages"]) == ["system", "developer", "system", "user"]


def test_q45_developer_is_system_where_it_is_unknown():
    found = messages(DEFAULT, message("developer", "a"), user("hi"), system="keep")
    assert roles(found) == ["system", "user"]


def test_q45_an_image_in_a_system_message_is_refused():
    words = refused(message("developer", IMAGE), user("hi"))
    assert words == "A part of type 'input_image' cannot be sent in a system message."


# ------------------------------------------------------------------------------- Q46: calls and outputs


def test_q46_one_assistant_message_a_turn_with_its_outputs_behind_it():
    found = messages(
        DEFAULT,
        user("hi"),
        reasoning("hm"),
        assistant("a", "b"),
        assistant("c"),
        call("1", "f", '{"x":1}'),
        call("2", "g"),
        output("2", "two"),
        output("1", "one"),
        assistant("done"),
        user("more"),
    )
    assert found == [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": "ab\n\nc",
            "tool_calls": [
                {
                    "id": "1",
                    "type": "function",
                    "function": {"name": "f", "arguments": '{"x":1}'},
                },
                {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "one"},
        {"role": "tool", "tool_call_id": "2", "content": "two"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "more"},
    ]


def test_q46_what_stands_between_a_call_and_its_output_comes_after():
    found = messages(
        DEFAULT, user("hi"), call("1"), user("wait"), assistant("hm"), output("1"), user("go")
    )
    assert roles(found) == ["user", "assistant", "tool", "user", "assistant", "user"]
    assert found[3]["content"] == "wait"


def test_q46_text_after_a_call_joins_its_turn_until_an_output_has_come():
    found = messages(
        DEFAULT,
        user("hi"),
        call("1"),
        assistant("a"),
        call("2"),
        output("1"),
        assistant("b"),
        output("2"),
        user("go"),
    )
    assert roles(found) == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert (found[1]["content"], found[4]["content"]) == ("a", "b")


def test_q46_a_held_call_and_its_output_make_a_turn_of_their_own():
    found = messages(
        DEFAULT, user("hi"), call("1"), call("2"), output("1"), call("3"), output("3"), output("2")
    )
    assert roles(found) == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert [entry["tool_call_id"] for entry in found if entry["role"] == "tool"] == ["1", "2", "3"]


def test_q46_a_call_without_output_is_refused_by_name():
    assert refused(user("a"), call("1"), call("2"), output("1")) == (
        "No tool output found for function call 2."
    )


def test_q46_an_output_without_call_is_refused_by_name():
    words = "No tool call found for function call output with call_id 9."
    assert refused(user("a"), output("9")) == words
    assert refused(user("a"), call("1"), user("b"), output("9"), output("1")) == words


def test_q46_two_calls_of_one_id_are_refused():
    assert refused(user("a"), call("1"), call("1"), output("1")) == (
        "Two function calls of one turn have the call_id 1."
    )


def test_q46_an_id_may_come_again_in_a_later_turn():
    found = messages(DEFAULT, user("a"), call("1"), output("1"), call("1"), output("1"))
    assert roles(found) == ["user", "assistant", "tool", "assistant", "tool"]


def test_q46_mistral_gets_an_assistant_message_between_tool_and_user():
    found = messages("mistral", user("a"), call("1"), output("1"), user("b"))
    assert roles(found) == ["user", "assistant", "tool", "assistant", "user"]
    assert found[3] == {"role": "assistant", "content": "OK."}


# ------------------------------------------------------------------------- Q47, Q48: whose turn it is


@pytest.mark.parametrize(("mode", "content"), [("null", None), ("empty", "")])
def test_q47_content_of_a_message_that_has_only_calls(mode, content):
    found = messages(DEFAULT, user("a"), call("1"), output("1"), assistant_empty_content=mode)
    assert found[1]["content"] == content
    assert list(found[1]) == ["role", "content", "tool_calls"]


def test_q47_kimi_gets_no_content_beside_calls():
    found = messages("kimi", user("a"), assistant(""), call("1"), output("1"))
    assert list(found[1]) == ["role", "tool_calls"]


def test_q48_neighbours_of_one_role_are_merged():
    found = messages("mistral", user("a"), user("b"), assistant("c"), user("d", IMAGE), user("e"))
    assert found == [
        {"role": "user", "content": "a\n\nb"},
        {"role": "assistant", "content": "c"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "d"},
                {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
                {"type": "text", "text": "e"},
            ],
        },
    ]


def test_q48_neighbours_stay_apart_elsewhere():
    assert roles(messages(DEFAULT, user("a"), user("b"))) == ["user", "user"]


def test_q48_the_user_begins():
    found = messages("mistral", message("system", "s"), assistant("a"), user("b"))
    assert roles(found) == ["system", "user", "assistant", "user"]
    assert roles(messages("mistral", assistant("a"), user("b")))[0] == "user"


def test_q48_system_text_can_be_folded_into_the_first_user_message():
    found = messages("mistral", message("system", "s"), user("b"), system="user")
    assert found == [{"role": "user", "content": "s\n\nb"}]


def test_the_last_message_is_of_the_user_or_a_tool():
    more = {"role": "user", "content": "Continue."}
    assert messages(DEFAULT, user("a"), assistant("b"))[-1] == more
    assert messages(DEFAULT, message("system", "a"))[-1] == more
    assert messages(DEFAULT, user("a"), call("1"), output("1"))[-1]["role"] == "tool"
    assert roles(messages(DEFAULT, user("a"), assistant("b"), continue_text="")) == [
        "user",
        "assistant",
    ]


def test_there_are_no_empty_messages():
    found = messages(DEFAULT, user("a"), reasoning("x"), assistant(""), user(""), user("b"))
    assert found == [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]


def test_nothing_to_answer_is_refused():
    assert refused() == "There is nothing to answer: 'input' is empty."
    assert refused(user("")) == "There is nothing to answer: 'input' is empty."


def test_a_role_that_does_not_exist_is_refused():
    assert refused(message("critic", "a")) == "Messages of role 'critic' are not supported."


# -------------------------------------------------------------------------------- Q49: parts and images


def test_q49_text_only_is_one_string():
    assert messages(DEFAULT, user("a", "b")) == [{"role": "user", "content": "a\nb"}]


def test_q49_images_and_files_are_parts():
    found = messages(DEFAULT, user("look", IMAGE, FILE), files=True)
    assert found[0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "high"}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": FILE["file_data"]}},
    ]


def test_q49_a_detail_that_chat_does_not_know_is_left_out():
    found = messages(DEFAULT, user({**IMAGE, "detail": "original"}))
    assert found[0]["content"] == [{"type": "image_url", "image_url": {"url": PNG}}]


@pytest.mark.parametrize(
    ("part", "overrides", "words"),
    [
        (IMAGE, {"images": False}, "This model server takes no images."),
        (FILE, {}, "This model server takes no files; send their text instead."),
        (
            {"type": "input_image", "file_id": "file-1"},
            {},
            "An image must be given by image_url; file ids are unknown to this model server.",
        ),
        (
            {"type": "input_file", "file_url": "https://x/y"},
            {"files": True},
            "A file must be given by file_data; this model server fetches no URLs.",
        ),
        (
            {"type": "input_audio"},
            {},
            "Content of type 'input_audio' is not supported by this model server.",
        ),
    ],
)
def test_q49_what_the_server_cannot_see_is_refused_with_words(part, overrides, words):
    assert refused(user("look", part), **overrides) == words


def test_q49_tool_outputs_are_strings_and_images_follow_all_of_them():
    found = messages(
        DEFAULT,
        user("hi"),
        call("1"),
        call("2"),
        output("1", [{"type": "input_text", "text": "a"}, IMAGE]),
        output("2", [{"type": "input_text", "text": "b"}, {"type": "input_text", "text": "c"}]),
        assistant("done"),
        user("go"),
    )
    assert roles(found) == ["user", "assistant", "tool", "tool", "user", "assistant", "user"]
    assert found[2]["content"] == "a\n[image 1: in the next user message]"
    assert found[3]["content"] == "b\nc"
    assert found[4]["content"][0]["text"] == "[Images from the tool output above]"
    assert found[4]["content"][1]["image_url"]["url"] == PNG


def test_q49_an_image_out_of_a_tool_does_not_end_a_thread_on_a_blind_server():
    found = messages("deepseek", user("hi"), call("1"), output("1", [IMAGE]))
    assert found[-1]["content"] == "[image left out: this model server takes no images]"


def test_q49_a_file_out_of_a_tool_is_refused():
    assert refused(user("hi"), call("1"), output("1", [FILE])) == (
        "A part of type 'input_file' cannot be sent in a tool output to this model server."
    )


def test_q49_parts_stay_where_the_server_takes_them():
    found = messages(
        DEFAULT,
        user("hi"),
        call("1"),
        output("1", [{"type": "input_text", "text": "a"}, IMAGE]),
        tool_content="parts",
    )
    assert [part["type"] for part in found[-1]["content"]] == ["text", "image_url"]


def test_q49_an_empty_output_is_an_empty_string():
    assert messages(DEFAULT, user("hi"), call("1"), output("1", []))[-1]["content"] == ""
    found = messages(DEFAULT, user("hi"), call("1"), output("1", []), tool_content="parts")
    assert found[-1]["content"] == []


# -------------------------------------------------------------------------- Q50, Q60: calls themselves


def test_q50_mistral_gets_ids_of_nine_that_still_pair():
    found = messages("mistral", user("a"), call("call_very_long_1"), output("call_very_long_1"))
    call_id = found[1]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert call_id.isalnum()
    assert found[2]["tool_call_id"] == call_id


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("", "{}"),
        (" \n", "{}"),
        ('{"a": ', '{"_raw":"{\\"a\\": "}'),
        ("[1]", '{"_raw":"[1]"}'),
        ('"text"', '{"_raw":"\\"text\\""}'),
        ('{"a":"\\ud800"}', '{"_raw":"{\\"a\\":\\"\\\\ud800\\"}"}'),
        ({"a": 1}, '{"a":1}'),
        (None, '{"_raw":null}'),
    ],
)
def test_q60_arguments_are_the_text_of_an_object(written, sent):
    found = messages(DEFAULT, user("a"), call("1", "f", written), output("1"))
    assert found[1]["tool_calls"][0]["function"]["arguments"] == sent
    assert isinstance(json.loads(sent), dict)


# --------------------------------------------------------------------------------- reasoning sent back


def test_reasoning_is_left_out_unless_the_profile_asks():
    found = messages(DEFAULT, user("a"), reasoning("hm"), assistant("b"), user("c"))
    assert list(found[1]) == ["role", "content"]


@pytest.mark.parametrize(
    ("profile", "field"), [("vllm", "reasoning"), ("sglang", "reasoning_content")]
)
def test_reasoning_goes_back_in_the_servers_own_field(profile, field):
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}
    found = messages(
        profile, user("a"), reasoning("hm"), summary, reasoning(), assistant("b"), user("c")
    )
    assert found[1] == {"role": "assistant", "content": "b", field: "hm\n\nso"}


def test_reasoning_alone_is_no_message():
    found = messages("vllm", user("a"), reasoning("hm"), user("b"), assistant("c"), user("d"))
    assert roles(found) == ["user", "user", "assistant", "user"]
    assert "reasoning" not in found[2]


def test_deepseek_gets_reasoning_content_in_every_assistant_message():
    found = messages(
        "deepseek",
        user("a"),
        assistant("b"),
        user("c"),
        reasoning("hm"),
        call("1"),
        output("1"),
        call("2"),
        output("2"),
    )
    sent = [entry["reasoning_content"] for entry in found if entry["role"] == "assistant"]
    assert sent == ["", "hm", ""]


# ------------------------------------------------------------------------------------- foreign items


@pytest.mark.parametrize("kind", sorted(NOTE_ROLES))
def test_records_of_hosted_calls_become_notes_on_every_profile(kind):
    item = {"type": kind, "id": "x_1", "status": "completed", "action": {"query": "q"}}
    for profile in profile_names():
        if load_profile(profile).unknown_items != "pass":
            found = messages(profile, user("a"), item, user("b"))
            text = f'[{kind}] {{"status":"completed","action":{{"query":"q"}}}}'
            assert any(text in (entry["content"] or "") for entry in found), profile


def test_a_note_is_short():
    item = {"type": "image_generation_call", "result": "A" * 10**6, "list": ["B" * 900] * 9}
    text = messages(DEFAULT, user("a"), item, user("b"))[1]["content"]
    assert len(text) < MAX_NOTE_CHARS + 100
    assert "… [999000 more characters]" in text


def test_a_note_of_the_last_item_is_followed_by_the_user():
    found = messages(DEFAULT, user("a"), {"type": "web_search_call", "action": {"n": 1}})
    assert roles(found) == ["user", "assistant", "user"]


def test_what_an_agent_said_is_a_labelled_user_message():
    said = {"type": "agent_message", "author": "root", "recipient": "worker"}
    parts = [{"type": "input_text", "text": "do"}, {"type": "encrypted_content", "data": "x"}]
    found = messages(DEFAULT, {**said, "content": parts}, {**said, "content": "go"}, said)
    label = "[Message from agent root to worker]"
    assert [entry["content"] for entry in found] == [
        f"{label}\ndo\n[encrypted_content left out]",
        f"{label}\ngo",
        f"{label}\n",
    ]


def test_what_an_agent_said_may_hold_an_image():
    said = {"type": "agent_message", "author": "a", "recipient": "b", "content": [IMAGE]}
    assert messages(DEFAULT, said)[0]["content"][1]["type"] == "image_url"


def test_an_item_reference_is_refused_with_words():
    assert "cannot be resolved here" in refused(user("a"), {"type": "item_reference", "id": "x"})


def test_unknown_items_are_refused_by_name():
    assert refused(user("a"), {"type": "acme:thing"}) == (
        "Items of type 'acme:thing' are not supported by this model server."
    )


def test_unknown_items_can_be_noted():
    item = {"type": "acme:thing", "id": "1", "n": 1, "none": None}
    found = messages(DEFAULT, user("a"), item, unknown_items="note")
    assert found[1] == {"role": "user", "content": '[acme:thing] {"n":1,"none":null}'}


def test_chat_takes_pass_for_reject_but_notes_what_it_knows():
    assert "'acme:thing'" in refused(user("a"), {"type": "acme:thing"}, unknown_items="pass")
    found = messages(
        DEFAULT, user("a"), {"type": "web_search_call"}, user("b"), unknown_items="pass"
    )
    assert found[1] == {"role": "assistant", "content": "[web_search_call] {}"}


def test_a_refusal_and_an_item_without_type_are_text():
    refusal = assistant({"type": "refusal", "refusal": "no"})
    found = messages(DEFAULT, {"role": "user", "content": "a"}, refusal, user("b"))
    assert found[:2] == [{"role": "user", "content": "a"}, {"role": "assistant", "content": "no"}]


def test_an_image_in_an_assistant_message_is_refused():
    assert refused(user("a"), assistant(IMAGE)) == (
        "A part of type 'input_image' cannot be sent in an assistant message."
    )


# -------------------------------------------------------------------- the same bytes, turn after turn

TEXTS = st.text(max_size=8)


@st.composite
def turns(draw):
    """A thread as a list of turns: what the user or the tools say, then what the model does."""
    found = []
    waiting: list[str] = []
    for number in range(draw(st.integers(1, 5))):
        said = [output(call_id, draw(TEXTS)) for call_id in draw(st.permutations(waiting))]
        if not said or draw(st.booleans()):
            late = draw(st.sampled_from(("user", "user", "developer")))
            said.append(message(late if number else "user", f"u{draw(TEXTS)}"))
        waiting = [f"call_{number}_{n}" for n in range(draw(st.integers(0, 3)))]
        done = [reasoning(draw(TEXTS))] if draw(st.booleans()) else []
        done += [assistant(f"a{draw(TEXTS)}")] if draw(st.booleans()) or not waiting else []
        done += [call(call_id, "f", draw(TEXTS)) for call_id in waiting]
        found.append((said, done))
    if waiting:
        found.append(([output(call_id) for call_id in waiting], []))
    return found


@given(turns(), st.sampled_from(profile_names()))
def test_identical_history_is_an_identical_byte_prefix(thread, name):
    dialect = make_dialect(load_profile(name, {"dialect": "chat"}))
    whole = [item for said, done in thread for item in (*said, *done)]
    kept = copy.deepcopy(whole)
    last = dialect.encode(lowered(*whole))
    assert dialect.encode(lowered(*whole)) == last
    items: list = []
    for said, done in thread:
        items += said
        part = dialect.encode(lowered(*items))
        assert part.endswith(b"]}")
        assert last.startswith(part.removesuffix(b"]}"))
        items += done
    assert whole == kept


@given(turns(), st.sampled_from(profile_names()))
def test_a_growing_thread_gives_what_a_whole_one_gives(thread, name):
    profile = load_profile(name)
    thread_so_far = ChatThread(profile)
    given_out: list = []
    items: list = []
    for said, done in thread:
        for item in said:
            items.append(item)
            given_out += thread_so_far.add(item)
        before = list(given_out)
        assert before + thread_so_far.tail() == chat_messages(lowered(*items), profile)
        assert before + thread_so_far.tail() == chat_messages(lowered(*items), profile)
        items += done
        for item in done:
            given_out += thread_so_far.add(item)


def test_leading_system_text_is_found_once():
    profile = load_profile(DEFAULT)
    system, rest = lead(lowered(message("system", "a"), user("b"), message("system", "c")), profile)
    assert (len(system), len(rest)) == (1, 2)
