"""tool_search, clause by clause, in one request that holds everything and in a conversation that is continued."""

from copy import deepcopy

import pytest

from gateway.tools.options import ToolOptions
from gateway.tools.row import CallIds
from gateway.turn.history import History
from gateway.turn.request import Lowering, TurnOptions, prepare
from gateway.turn.turn import Turn
from tests.shared import check_stream
from tests.turn.canonical_streams import Answer, call, completed

SEARCH = {"type": "tool_search", "execution": "client", "description": "Find.", "parameters": {}}


def function(name, **fields):
    return {
        "type": "function",
        "name": name,
        "description": f"{name}.",
        "parameters": {},
        "strict": False,
        **fields,
    }


def deferred(tool):
    return {**tool, "defer_loading": True}


def namespace(name, *members):
    return {"type": "namespace", "name": name, "description": "", "tools": list(members)}


FORECAST = deferred(function("get_forecast"))
WEATHER = namespace("mcp__weather", FORECAST, function("now"))
TOOLS = [function("shell"), SEARCH, WEATHER, deferred(function("later"))]


def search_call(call_id="s1", **fields):
    item = {"type": "tool_search_call", "id": f"tsc_{call_id}", "call_id": call_id}
    item |= {"execution": "client", "status": "completed", "arguments": {"query": "weather"}}
    return {**item, **fields}


def search_output(*tools, call_id="s1", **fields):
    item = {"type": "tool_search_output", "call_id": call_id, "execution": "client"}
    return {**item, "status": "completed", "tools": list(tools), **fields}


def in_one_request(items, split_at):
    return items, History()


def continued(items, split_at):
    """All but the last items were said in earlier turns."""
    return items[split_at:], History(items=tuple(items[:split_at]))


def continued_turn_by_turn(items, split_at):
    """Calls were the model's, outputs the client's."""
    history = History()
    for item in items[:split_at]:
        is_call = item["type"] == "tool_search_call"
        history = history.extended([] if is_call else [item], [item] if is_call else [])
    return items[split_at:], history


@pytest.fixture(params=[in_one_request, continued, continued_turn_by_turn])
def spread(request):
    return request.param


def sent(spread, items, tools=TOOLS, **options):
    """Names that go upstream, for every place where the conversation may be split; the echo too."""
    seen = []
    before = deepcopy((items, tools))
    for split_at in range(len(items) + 1):
        new_items, history = spread(items, split_at)
        request = {"model": "m", "tools": tools, "input": new_items}
        prepared = prepare(request, history, Lowering(ToolOptions(**options), "m"))
        assert "defer_loading" not in str(prepared.lowered)
        lowered = prepared.lowered.get("tools", [])
        assert {tool["type"] for tool in lowered} <= {"function"}
        outcome = [tool["name"] for tool in lowered], prepared.public_tools
        seen.append((outcome, prepared.table))
    assert (items, tools) == before
    assert all(outcome == seen[0][0] for outcome, _ in seen)
    (names, public), table = seen[0]
    return names, public, table


ALWAYS = ["shell", "tool_search", "mcp__weather__now"]
LOADED = "mcp__weather__get_forecast"


def test_deferred_tools_that_are_not_loaded_are_withheld(spread):
    assert sent(spread, [])[:2] == (ALWAYS, TOOLS)


def test_eager_sends_them_all(spread):
    names, public, _ = sent(spread, [], deferred="eager")
    assert names == ["shell", "tool_search", LOADED, "mcp__weather__now", "later"]
    assert public == TOOLS


@pytest.mark.parametrize("status", ["completed", None, "absent"])
def test_a_completed_call_and_its_completed_output_load(spread, status):
    items = [search_call(status=status), search_output(WEATHER, status=status)]
    if status == "absent":
        items = [{k: v for k, v in item.items() if k != "status"} for item in items]
    names, public, _ = sent(spread, items)
    assert names == [*ALWAYS, LOADED]
    bare = {k: v for k, v in FORECAST.items() if k != "defer_loading"}
    assert public == [
        TOOLS[0],
        TOOLS[1],
        namespace("mcp__weather", bare, function("now")),
        TOOLS[3],
    ]


IGNORED = {
    "unmatched output": [search_output(WEATHER)],
    "output of another call": [search_call(), search_output(WEATHER, call_id="s2")],
    "output before its call": [search_output(WEATHER), search_call()],
    "unanswered call": [search_call()],
    "incomplete call": [search_call(status="incomplete"), search_output(WEATHER)],
    "incomplete output": [search_call(), search_output(WEATHER, status="incomplete")],
    "empty call_id": [search_call(""), search_output(WEATHER, call_id="")],
    "null call_id": [search_call(None), search_output(WEATHER, call_id=None)],
    "call of the service": [search_call(execution="server"), search_output(WEATHER)],
    "output of the service": [search_call(), search_output(WEATHER, execution="server")],
    "no execution": [search_call(execution=None), search_output(WEATHER, execution=None)],
    "ambiguous calls": [
        search_call(),
        search_call(arguments={"query": "other"}),
        search_output(WEATHER),
    ],
    "duplicate output": [search_call(), search_output(), search_output(WEATHER)],
    "conflicting output": [
        search_call(),
        search_output(function("shell", strict=True)),
        search_output(WEATHER),
    ],
    "a function call": [
        {"type": "function_call", "call_id": "s1", "name": "tool_search", "arguments": "{}"},
        search_output(WEATHER),
        {"type": "function_call_output", "call_id": "s1", "output": "aborted"},
    ],
    "not a declaration": [search_call(), search_output({"type": "function"}, {"x": 1}, "f", None)],
    "a hosted tool": [search_call(), search_output({"type": "web_search"}, SEARCH)],
    "another kind under a declared name": [
        search_call(),
        search_output({"type": "custom", "name": "later"}),
    ],
}


@pytest.mark.parametrize("items", IGNORED.values(), ids=IGNORED)
def test_what_is_ignored_is_kept_on_the_wire_and_no_error(spread, items):
    assert sent(spread, items)[:2] == (ALWAYS, TOOLS)


def test_the_first_completed_output_counts(spread):
    items = [
        search_call(),
        search_output(deferred(function("later")), status="incomplete"),
        search_output(WEATHER),
        search_output(deferred(function("later"))),
    ]
    assert sent(spread, items)[0] == [*ALWAYS, LOADED]


def test_a_tool_that_was_never_declared_can_be_loaded(spread):
    items = [search_call(), search_output(namespace("mcp__new", deferred(function("x"))))]
    names, public, table = sent(spread, items)
    assert names == [*ALWAYS, "mcp__new__x"]
    assert public == TOOLS
    assert table.lift("mcp__new__x").restored() == {"name": "x", "namespace": "mcp__new"}


def test_loaded_tools_stay_loaded_and_come_behind(spread):
    items = [search_call(), search_output(deferred(function("later")))]
    items += [search_call("s2"), search_output(WEATHER, call_id="s2")]
    assert sent(spread, items)[0] == [*ALWAYS, "later", LOADED]


def test_a_declared_top_level_function_wins_a_name(spread):
    mine = function("shell", parameters={"type": "object", "title": "not this one"})
    taken = function(LOADED)
    items = [search_call(), search_output(mine, WEATHER)]
    names, _, table = sent(spread, items, [*TOOLS, taken])
    assert names[:4] == [*ALWAYS, LOADED]
    assert names[4].startswith(f"{LOADED}_")
    assert table.lift("shell").declaration == TOOLS[0]
    assert table.lift(LOADED).restored() == {"name": LOADED}
    assert table.lift(names[4]).restored() == {"name": "get_forecast", "namespace": "mcp__weather"}


@pytest.mark.parametrize("declared", [None, deferred(function("tool_search"))])
@pytest.mark.parametrize("wrap", [lambda tool: tool, lambda tool: namespace("functions", tool)])
def test_a_loaded_function_called_tool_search_leaves_the_fallback_on(spread, declared, wrap):
    tools = [SEARCH] if declared is None else [declared, SEARCH]
    items = [search_call(), search_output(wrap(function("tool_search")), function("other"))]
    names, public, table = sent(spread, items, tools)
    assert names == ["tool_search", "other"]
    assert public == tools
    assert table.lift("tool_search").kind == "tool_search"
    ids = CallIds(new_id=lambda prefix: prefix, call_id="c", output_index=0)
    _, item = table.open_call("tool_search", ids).close('{"query": "x"}')
    assert item["type"] == "tool_search_call"


def test_without_the_declaration_such_a_function_is_like_any_other(spread):
    items = [search_call(), search_output(function("tool_search"))]
    names, _, table = sent(spread, items, [])
    assert names == ["tool_search"]
    assert table.lift("tool_search").kind == "function"


@pytest.mark.parametrize("execution", [{}, {"execution": "server"}])
def test_a_bare_or_server_search_is_a_hosted_tool(spread, execution):
    tools = [{"type": "tool_search", **execution}, function("shell")]
    names, public, table = sent(spread, [search_call(), search_output(function("x"))], tools)
    assert names == ["shell", "x"]
    assert public == tools
    assert table.search_row is None


@pytest.mark.parametrize("name", ["get_forecast", LOADED, "mcp__weather.get_forecast"])
def test_the_next_call_is_restored_in_the_stream(spread, name):
    items = [search_call(), search_output(WEATHER)]
    new_items, history = spread(items, 1)
    request = {"model": "m", "tools": TOOLS, "input": new_items}
    turn = Turn(request, history, TurnOptions(), lambda p: f"{p}_1", lambda: 1)
    turn.send()
    for event in Answer([call(name, "call_9", ["{}"], "completed")], completed()).events():
        turn.receive(event)
    public = turn.events_to_send()
    shown = [
        *TOOLS[:2],
        {**WEATHER, "tools": [function("get_forecast"), function("now")]},
        TOOLS[3],
    ]
    # The checker would miss `defer_loading`, which a loaded tool loses on purpose.
    check_stream(public, request={**request, "tools": shown})
    (item,) = turn.output
    assert (item["namespace"], item["name"]) == ("mcp__weather", "get_forecast")
