"""Custom tools."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from gateway.errors import RequestError
from gateway.tools import custom
from gateway.tools.options import ToolOptions
from gateway.tools.row import CallIds, Row

IDS = CallIds(new_id=lambda prefix: f"{prefix}_1", call_id="call_1", output_index=0)
HINT = "Put the text, as it is, into the string `input`."


def row(namespace=None, **declared):
    return Row(
        kind="custom",
        name="apply_patch",
        namespace=namespace,
        upstream="apply_patch",
        declaration={"type": "custom", "name": "apply_patch", **declared},
        path="tools[0]",
    )


@pytest.mark.parametrize(
    ("declared", "paragraphs"),
    [
        ({}, [HINT]),
        ({"description": "Edits.", "format": {"type": "text"}}, ["Edits.", HINT]),
        ({"description": None, "format": None}, [HINT]),
        (
            {"format": {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}},
            [
                HINT,
                "The text must match this Lark grammar, character by character:",
                'start: "x"',
            ],
        ),
        (
            {"format": {"type": "grammar", "syntax": "regex", "definition": "x+"}},
            [HINT, "The whole text must match this regular expression:", "x+"],
        ),
    ],
)
def test_the_model_is_shown_the_form(declared, paragraphs):
    tool = row(**declared, defer_loading=True)
    before = deepcopy(tool.declaration)
    lowered = custom.lower_tool(tool, ToolOptions())
    assert lowered["description"] == "\n\n".join(paragraphs)
    assert tool.declaration == before


def test_the_function_has_one_required_string():
    lowered = custom.lower_tool(row(), ToolOptions())
    assert set(lowered) == {"type", "name", "description", "parameters", "strict"}
    assert (lowered["type"], lowered["name"], lowered["strict"]) == (
        "function",
        "apply_patch",
        False,
    )
    parameters = lowered["parameters"]
    assert parameters["type"] == "object"
    assert parameters["required"] == ["input"]
    assert parameters["additionalProperties"] is False
    assert parameters["properties"]["input"]["type"] == "string"


@pytest.mark.parametrize("text", ["", "*** Begin Patch\n", '"quoted" \\ 😀 \0'])
def test_a_call_of_the_history_has_the_form_that_the_model_is_asked_for(text):
    item = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c", "name": "x", "input": text}
    lowered = custom.lower_call(item, "ns__x")
    assert json.loads(lowered.pop("arguments")) == {"input": text}
    assert lowered == {"type": "function_call", "call_id": "c", "name": "ns__x"}


def run(fragments, namespace=None):
    stream = custom.open_stream(row(namespace), IDS, ToolOptions())
    events = stream.open()
    for fragment in fragments:
        events += stream.delta(fragment)
    return stream, events


@pytest.mark.parametrize("namespace", [None, "functions"])
def test_a_call_streams_its_text(namespace):
    stream, events = run(['{"in', 'put": "a\\', "nb", '"', "}"], namespace)
    end, item = stream.close("ignored")
    assert [event["type"] for event in [*events, *end]] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.delta",
        "response.custom_tool_call_input.done",
        "response.output_item.done",
    ]
    names = {"name": "apply_patch"} | ({"namespace": namespace} if namespace else {})
    base = {"id": "ctc_1", "type": "custom_tool_call", "call_id": "call_1", **names}
    assert events[0]["item"] == {**base, "status": "in_progress", "input": ""}
    assert item == {**base, "status": "completed", "input": "a\nb"}
    assert end[-1]["item"] == item
    assert end[0] == {
        "type": "response.custom_tool_call_input.done",
        "item_id": "ctc_1",
        "output_index": 0,
        "input": "a\nb",
    }
    assert "".join(event.get("delta", "") for event in events) == "a\nb"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a", "b": 1}', "a"),
        ('{"patch": "a"}', "a"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"input": "a "b""}', 'a "b""}'),
        ("5", "5"),
        ("{}", "{}"),
    ],
)
def test_deltas_concatenate_to_the_final_input(arguments, text):
    stream, events = run(list(arguments))
    end, item = stream.close(arguments)
    deltas = [event["delta"] for event in [*events, *end] if event["type"].endswith(".delta")]
    assert "".join(deltas) == item["input"] == text
    assert "" not in deltas


def test_a_cut_call_shows_what_there_is_and_is_never_done():
    stream, _ = run(['{"input": "a\\n', "b\\u00"])
    events, item = stream.cut("ignored")
    assert events == []
    assert (item["status"], item["input"]) == ("incomplete", "a\nb")


PATCH = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch"
GRAMMAR = (Path(__file__).parents[1] / "grammars" / "apply_patch.lark").read_text()
LARK = {"format": {"type": "grammar", "syntax": "lark", "definition": GRAMMAR}}
TEXT = {"format": {"type": "text"}}
ONE_VALUE = {"format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}}
RECURSIVE = {"format": {"type": "grammar", "syntax": "lark", "definition": 'start: "(" start? ")"'}}
EXEC_GRAMMAR = (Path(__file__).parents[1] / "grammars" / "exec.lark").read_text()
EXEC = {"format": {"type": "grammar", "syntax": "lark", "definition": EXEC_GRAMMAR}}
STRICT = ToolOptions(invalid="function_call")


def call(text, declared, options, size=3):
    """Events, item and verdict of a call with this text, in fragments of `size`."""
    arguments = json.dumps({"input": text})
    stream = custom.open_stream(row(**declared), IDS, options)
    events = stream.open()
    for at in range(0, len(arguments), size):
        events += stream.delta(arguments[at : at + size])
    end, item = stream.close(arguments)
    return [*events, *end], item, stream.verdict


def deltas(events):
    return "".join(event["delta"] for event in events if event["type"].endswith("input.delta"))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "kind", "given"),
    [
        (PATCH, "valid", PATCH),
        (f"```diff\n{PATCH}\n```", "unwrapped", f"{PATCH}\n"),
        (PATCH.replace("Patch\n", "Patch ***\n") + " ***", "unwrapped", PATCH),
        (json.dumps({"patch": PATCH}), "unwrapped", PATCH),
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", "unwrapped", f"{PATCH}\n"),
        (PATCH.replace("+hi", "hi"), "invalid", PATCH.replace("+hi", "hi")),
        (PATCH[:-3], "invalid", PATCH[:-3]),
        ("", "invalid", ""),
        (f"x{PATCH}", "invalid", f"x{PATCH}"),
    ],
)
def test_a_call_is_judged_by_its_grammar_at_any_split(text, kind, given, size):
    events, item, verdict = call(text, LARK, ToolOptions(), size)
    assert (verdict.kind, item["input"], deltas(events)) == (kind, given, given)
    assert item["type"] == "custom_tool_call"
    if kind == "invalid":
        assert verdict.line is not None
        assert verdict.column is not None
        assert verdict.reason in verdict.note()


def test_text_leaves_while_the_grammar_can_accept_it_and_is_held_from_then_on():
    stream = custom.open_stream(row(**LARK), IDS, ToolOptions())
    stream.open()
    assert deltas(stream.delta('{"input": "*** Begin Pat')) == "*** Begin Pat"
    assert deltas(stream.delta("ch ***")) == "ch"
    assert deltas(stream.delta("\\n*** Add File")) == ""


def test_the_place_of_the_first_bad_character_is_told():
    _, _, verdict = call(PATCH.replace("+hi", "hi"), LARK, ToolOptions())
    assert (verdict.line, verdict.column) == (3, 1)


def test_what_cannot_be_checked_says_why():
    lookahead = {"format": {"type": "grammar", "syntax": "regex", "definition": "(?=a)a"}}
    _, item, verdict = call("anything", lookahead, STRICT)
    assert (verdict.kind, item["type"]) == ("unchecked", "custom_tool_call")
    assert verdict.reason


def test_plain_text_has_no_verdict():
    for options in (ToolOptions(), STRICT):
        _, item, verdict = call("anything", TEXT, options)
        assert (verdict, item["type"]) == (None, "custom_tool_call")


@pytest.mark.parametrize("text", [PATCH, f"```\n{PATCH}\n```"])
def test_strict_gives_a_custom_call_for_what_matches(text):
    events, item, _ = call(text, LARK, STRICT)
    assert item["type"] == "custom_tool_call"
    assert item["input"].strip() == PATCH
    assert events[0]["item"]["type"] == "custom_tool_call"
    assert deltas(events) == item["input"]


def test_strict_gives_the_models_function_call_for_what_does_not():
    text = "no patch"
    events, item, verdict = call(text, LARK, STRICT)
    assert verdict.kind == "invalid"
    assert [event["type"] for event in events] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert (item["type"], item["arguments"]) == ("function_call", json.dumps({"input": text}))


def test_strict_is_a_setting_by_name():
    by_name = ToolOptions(invalid_by_name={"apply_patch": "function_call"})
    assert call("no patch", LARK, by_name)[1]["type"] == "function_call"
    other = ToolOptions(invalid="function_call", invalid_by_name={"apply_patch": "custom_call"})
    assert call("no patch", LARK, other)[1]["type"] == "custom_tool_call"


def test_a_cut_strict_call_shows_what_there_is():
    stream = custom.open_stream(row(**LARK), IDS, STRICT)
    assert stream.open() == []
    assert stream.delta('{"input": "*** Beg') == []
    events, item = stream.cut('{"input": "*** Beg')
    assert [event["type"] for event in events] == [
        "response.output_item.added",
        "response.custom_tool_call_input.delta",
    ]
    assert (item["status"], item["input"]) == ("incomplete", "*** Beg")


def test_a_server_that_honours_patterns_is_given_one():
    field = custom.lower_tool(row(**ONE_VALUE), ToolOptions(pattern=True))
    assert field["parameters"]["properties"]["input"]["pattern"] == "^[0-9]+$"
    assert field["strict"] is False
    strict = custom.lower_tool(row(**ONE_VALUE), ToolOptions(pattern=True, pattern_strict=True))
    assert strict["strict"] is True


@pytest.mark.parametrize(
    ("declared", "options", "constrain"),
    [
        (ONE_VALUE, ToolOptions(pattern=True, pattern_strict=True), False),
        (ONE_VALUE, ToolOptions(pattern_strict=True), True),
        (RECURSIVE, ToolOptions(pattern=True, pattern_strict=True), True),
        (TEXT, ToolOptions(pattern=True, pattern_strict=True), True),
        (EXEC, ToolOptions(pattern=True, pattern_strict=True), True),
    ],
)
def test_no_pattern_goes_up_where_there_is_none_or_none_is_wanted(declared, options, constrain):
    lowered = custom.lower_tool(row(**declared), options, constrain=constrain)
    assert "pattern" not in lowered["parameters"]["properties"]["input"]
    assert lowered["strict"] is False


def test_why_a_tool_is_not_constrained():
    options = ToolOptions(pattern=True)
    note = custom.constraint_note(row(**RECURSIVE).declaration, options)
    assert note is not None
    assert "recursive" in note
    assert custom.constraint_note(row(**ONE_VALUE).declaration, options) is None
    assert custom.constraint_note(row(**RECURSIVE).declaration, ToolOptions()) is None


@pytest.mark.parametrize(
    ("syntax", "definition", "place"),
    [("lark", "", "line 1"), ("lark", 'start: "a"\nb: (', "line 2"), ("regex", "a(", "line 1")],
)
@pytest.mark.parametrize("options", [ToolOptions(), ToolOptions(pattern=True)])
def test_a_broken_definition_names_tool_and_line(syntax, definition, place, options):
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    tool = {"type": "custom", "name": "edit", "format": form}
    with pytest.raises(RequestError, match="'edit'") as raised:
        custom.check_tool(tool, "tools[3]", options)
    assert raised.value.param == "tools[3].format.definition"
    assert place in raised.value.message
