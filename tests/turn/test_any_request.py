"""Whatever passes the door can be lowered, or is refused with words: never a crash, never a key of ours left in."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.tools.options import ToolOptions
from gateway.turn.history import History
from gateway.turn.request import Lowering, prepare
from gateway.wire.json import dumps
from gateway.wire.request import check_request

NAMES = st.sampled_from(["f", "g", "ns", "functions", "tool_search", "a__b", "x" * 70])
LEAVES = st.none() | st.booleans() | st.integers(0, 3) | NAMES | st.just("")
JUNK = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2)
)
IDS = st.sampled_from(["c1", "c2", "c1_2"])
TEXT = st.sampled_from(["", "ok", "{}", '{"input": 1}'])
FORMATS = st.sampled_from(
    [
        {"type": "text"},
        {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
        {"type": "grammar", "syntax": "regex", "definition": "x"},
    ]
)


def record(required, **optional):
    return st.fixed_dictionaries(required, optional=optional)


def kind(*names):
    return st.sampled_from(names)


# Checked at the door.
FUNCTION = record(
    {"type": st.just("function"), "name": NAMES},
    description=TEXT,
    parameters=st.just({"type": "object"}),
    strict=st.booleans(),
    defer_loading=st.booleans(),
)
CUSTOM = record(
    {"type": st.just("custom"), "name": NAMES}, format=FORMATS, defer_loading=st.booleans()
)
NAMESPACE = record(
    {
        "type": st.just("namespace"),
        "name": NAMES,
        "tools": st.lists(FUNCTION | CUSTOM, min_size=1, max_size=3),
    }
)
SEARCH = record(
    {"type": st.just("tool_search")}, execution=kind("client", "server"), description=TEXT
)
HOSTED = record(
    {"type": kind("web_search", "mcp")}, server_label=NAMES, defer_loading=st.booleans()
)
TOOLS = FUNCTION | CUSTOM | NAMESPACE | SEARCH | HOSTED
# Inside items nobody has looked at them.
ANY_TOOL = record(
    {"type": kind("function", "custom", "namespace", "tool_search", "web_search", "new")},
    name=NAMES | JUNK,
    description=JUNK,
    parameters=JUNK,
    format=FORMATS | JUNK,
    strict=JUNK,
    defer_loading=JUNK,
    execution=kind("client", "server") | JUNK,
    tools=st.lists(TOOLS | JUNK, max_size=2) | JUNK,
)
ITEM = st.one_of(
    record({"type": st.just("message"), "role": kind("user", "assistant"), "content": TEXT}),
    record({"type": st.just("reasoning"), "summary": st.just([])}, encrypted_content=TEXT),
    record(
        {"type": st.just("function_call"), "call_id": IDS, "name": NAMES, "arguments": TEXT},
        namespace=NAMES,
        status=TEXT,
    ),
    record(
        {"type": st.just("custom_tool_call"), "call_id": IDS, "name": NAMES, "input": TEXT},
        namespace=NAMES,
    ),
    record(
        {
            "type": kind("function_call_output", "custom_tool_call_output"),
            "call_id": IDS,
            "output": TEXT | st.just([{"type": "input_text", "text": "x"}]),
        }
    ),
    record(
        {"type": st.just("tool_search_call"), "arguments": JUNK},
        call_id=IDS | kind("", None),
        execution=kind("client", "server", None),
        status=kind("completed", "incomplete", None),
    ),
    record(
        {"type": st.just("tool_search_output"), "tools": st.lists(ANY_TOOL, max_size=3)},
        call_id=IDS | kind("", None),
        execution=kind("client", "server", None),
        status=kind("completed", "incomplete", None),
    ),
    record({"type": st.just("additional_tools"), "tools": st.lists(ANY_TOOL, max_size=3)}),
    record({"type": st.just("hologram")}, call_id=JUNK, name=JUNK, tools=JUNK, id=JUNK),
)
ONE_CHOICE = record(
    {"type": kind("function", "custom", "tool_search", "web_search")}, name=NAMES, namespace=JUNK
)
CHOICES = (
    kind("auto", "none", "required")
    | ONE_CHOICE
    | record(
        {
            "type": st.just("allowed_tools"),
            "mode": kind("auto", "required"),
            "tools": st.lists(ONE_CHOICE, max_size=3),
        }
    )
)
REQUESTS = record(
    {"model": st.just("m"), "input": st.lists(ITEM, max_size=6)},
    tools=st.lists(TOOLS, max_size=4),
    tool_choice=CHOICES,
)
OPTIONS = st.builds(
    ToolOptions, hosted=kind("drop", "pass", "reject"), deferred=kind("withhold", "eager")
)


@given(REQUESTS, OPTIONS, st.integers(0, 6))
def test_any_request_is_lowered_or_refused(request, options, known):
    before = deepcopy(request)
    try:
        check_request(request)
        history = History(items=tuple(request["input"][:known]))
        rest = {**request, "input": request["input"][known:]}
        lowered = prepare(rest, history, Lowering(options, "m")).lowered
    except RequestError:
        lowered = {}
    assert request == before
    dumps(lowered)
    tools = lowered.get("tools", [])
    assert not any("defer_loading" in tool for tool in tools)
    names = [tool["name"] for tool in tools if tool["type"] == "function"]
    assert len(set(names)) == len(names)
    calls = [
        item["call_id"] for item in lowered.get("input", []) if item["type"] == "function_call"
    ]
    assert len(set(calls)) == len(calls)
