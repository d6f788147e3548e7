"""The tool table: names both ways, what is sent, what a call means."""

import itertools
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.tools.options import ToolOptions
from gateway.tools.row import CallIds
from gateway.tools.table import ToolTable

SEARCH = {"type": "tool_search", "execution": "client"}


def function(name, **fields):
    return {"type": "function", "name": name, "description": f"{name}.", **fields}


def custom(name, **fields):
    return {"type": "custom", "name": name, **fields}


def namespace(name, *members):
    return {"type": "namespace", "name": name, "description": "", "tools": list(members)}


def deferred(tool):
    return {**tool, "defer_loading": True}


def search(*tools, call_id="s1"):
    common = {"execution": "client", "call_id": call_id}
    return [
        {"type": "tool_search_call", **common, "arguments": {"query": call_id}},
        {"type": "tool_search_output", **common, "tools": list(tools)},
    ]


def additional(*tools):
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def build(tools, items=(), **options):
    return ToolTable.build(list(tools), list(items), ToolOptions(**options))


def sent(table):
    return [tool["name"] for tool in table.lower(table.rows())]


def called(table, upstream_name, arguments='{"input": "x"}'):
    """type, namespace and name of the public call that a model's call becomes."""
    ids = CallIds(new_id=lambda prefix: prefix, call_id="c", output_index=0)
    stream = table.open_call(upstream_name, ids)
    stream.open()
    stream.delta(arguments)
    _, item = stream.close(arguments)
    return item["type"], item.get("namespace"), item.get("name")


# -- declarations


def test_every_kind_is_declared_as_a_function_in_order():
    tools = [function("f"), custom("c"), namespace("ns", function("m"), custom("n")), SEARCH]
    table = build(tools)
    lowered = table.lower(table.rows())
    assert sent(table) == ["f", "c", "ns__m", "ns__n", "tool_search"]
    assert {tool["type"] for tool in lowered} == {"function"}
    assert table.notes == []


def test_no_tools_is_an_empty_table():
    table = ToolTable.build([], [])
    assert (table.rows(), table.lower([]), table.public_tools([])) == ([], [], [])
    assert table.search_row is None


def test_repeated_namespaces_merge_and_a_conflict_keeps_the_first():
    first, other = function("m"), function("m", parameters={"type": "object", "title": "other"})
    table = build(
        [namespace("ns", first), namespace("ns", first, function("n")), namespace("ns", other)]
    )
    assert sent(table) == ["ns__m", "ns__n"]
    assert table.find("ns", "m").declaration == first
    assert table.notes == ["tools[2].tools[0]: 'm' is declared already; kept the first"]


def test_functions_is_the_top_level():
    table = build([namespace("functions", custom("apply_patch"), function("shell"))])
    assert sent(table) == ["apply_patch", "shell"]
    assert called(table, "apply_patch") == ("custom_tool_call", "functions", "apply_patch")
    assert called(table, "shell") == ("function_call", "functions", "shell")
    assert table.find(None, "shell") is table.find("functions", "shell")


def test_one_tool_under_both_names_of_the_top_level_is_one():
    table = build([function("shell"), namespace("functions", custom("shell"))])
    assert sent(table) == ["shell"]
    assert called(table, "shell") == ("function_call", None, "shell")


def test_a_member_may_be_called_like_its_namespace_and_like_a_top_level_tool():
    table = build([function("weather"), namespace("weather", function("weather"))])
    assert sent(table) == ["weather", "weather__weather"]
    assert called(table, "weather") == ("function_call", None, "weather")
    assert called(table, "weather__weather") == ("function_call", "weather", "weather")


def test_a_second_search_is_the_first_again():
    table = build([SEARCH, {**SEARCH, "description": "other"}])
    assert sent(table) == ["tool_search"]
    assert len(table.notes) == 1


# -- names


def test_a_declared_top_level_function_wins_a_name_wherever_it_stands():
    table = build([namespace("a", function("b")), function("a__b")])
    member, top = sent(table)
    assert top == "a__b"
    assert member.startswith("a__b_")
    assert called(table, top) == ("function_call", None, "a__b")
    assert called(table, member) == ("function_call", "a", "b")


def test_two_members_that_flatten_alike_stay_two():
    table = build([namespace("a", function("b__c")), namespace("a__b", custom("c"))])
    first, second = sent(table)
    assert first == "a__b__c"
    assert second != first
    assert called(table, first) == ("function_call", "a", "b__c")
    assert called(table, second) == ("custom_tool_call", "a__b", "c")


def test_long_names_are_hashed_and_restored():
    table = build([namespace("n" * 60, function("m" * 60)), function("f" * 100)])
    names = sent(table)
    assert all(len(name) <= 64 for name in names)
    assert called(table, names[0]) == ("function_call", "n" * 60, "m" * 60)
    assert called(table, names[1]) == ("function_call", None, "f" * 100)


NAMES = st.sampled_from(["a", "b", "a__b", "b__c", "c", "tool_search", "x" * 70])
MEMBERS = st.builds(lambda name, kind: kind(name), NAMES, st.sampled_from([function, custom]))
DECLARED = (
    MEMBERS
    | st.builds(deferred, MEMBERS)
    | st.builds(
        lambda name, members: namespace(name, *members),
        NAMES | st.just("functions"),
        st.lists(MEMBERS | st.builds(deferred, MEMBERS), min_size=1, max_size=3),
    )
)
SEARCHES = st.lists(st.lists(DECLARED, max_size=3), max_size=3)


@given(
    st.lists(DECLARED | st.just(SEARCH), max_size=6),
    SEARCHES,
    st.sampled_from(["withhold", "eager"]),
)
def test_every_sent_name_leads_back_to_its_tool(tools, found, mode):
    items = [item for n, loaded in enumerate(found) for item in search(*loaded, call_id=f"s{n}")]
    before = deepcopy((tools, items))
    table = build(tools, items, deferred=mode)
    names = sent(table)
    assert len(set(names)) == len(names)
    for row in table.rows():
        assert table.lift(row.upstream) is row
        assert table.find(*row.public) is row or row.kind == "tool_search" or row.is_loaded
        assert table.upstream_name(*row.public) == row.upstream or row.kind == "tool_search"
    assert "defer_loading" not in str(table.lower(table.rows()))
    assert (tools, items) == before


@given(st.lists(DECLARED | st.just(SEARCH), max_size=5), SEARCHES, st.data())
def test_a_grown_history_only_adds_rows_behind(tools, found, data):
    items = []
    for number, loaded in enumerate(found):
        if data.draw(st.booleans()):
            items += search(*loaded, call_id=f"s{number}")
        else:
            items.append(additional(*loaded))
    rows = [build(tools, items[:n]).rows() for n in range(len(items) + 1)]
    for earlier, later in itertools.pairwise(rows):
        names = [row.upstream for row in earlier]
        assert [row.upstream for row in later][: len(names)] == names


# -- calls


WEATHER = namespace("mcp__weather", function("get_forecast"), custom("note"))


@pytest.mark.parametrize(
    ("answered", "call"),
    [
        ("mcp__weather__get_forecast", ("function_call", "mcp__weather", "get_forecast")),
        ("mcp__weather.get_forecast", ("function_call", "mcp__weather", "get_forecast")),
        ("get_forecast", ("function_call", "mcp__weather", "get_forecast")),
        ("note", ("custom_tool_call", "mcp__weather", "note")),
        ("mcp__weather.note", ("custom_tool_call", "mcp__weather", "note")),
        ("shell", ("function_call", None, "shell")),
        ("functions.shell", ("function_call", None, "shell")),
        ("functions__shell", ("function_call", None, "shell")),
        ("weather__get_forecast", ("function_call", None, "weather__get_forecast")),
        ("forecast", ("function_call", None, "forecast")),
        ("", ("function_call", None, "")),
    ],
)
def test_what_models_make_of_a_name(answered, call):
    assert called(build([function("shell"), WEATHER]), answered) == call


@pytest.mark.parametrize(
    ("tools", "answered", "call"),
    [
        # two namespaces have such a member
        (
            [namespace("a", function("m")), namespace("b", function("m"))],
            "m",
            ("function_call", None, "m"),
        ),
        # still exact
        (
            [namespace("a", function("m")), namespace("b", function("m"))],
            "b.m",
            ("function_call", "b", "m"),
        ),
        # the top-level tool is meant, since that is its exact name
        ([namespace("a", function("m")), function("m")], "m", ("function_call", None, "m")),
        # `a__b__c` reads two ways, but only one has that exact name
        (
            [namespace("a", custom("b__c")), namespace("a__b", function("c"))],
            "a__b__c",
            ("custom_tool_call", "a", "b__c"),
        ),
        # dotted it is plain
        (
            [namespace("a", custom("b__c")), namespace("a__b", function("c"))],
            "a__b.c",
            ("function_call", "a__b", "c"),
        ),
    ],
)
def test_ambiguous_names(tools, answered, call):
    assert called(build(tools), answered) == call


def test_a_long_member_is_understood_by_its_whole_name():
    table = build([namespace("n" * 40, function("m" * 40))])
    assert called(table, "n" * 40 + "__" + "m" * 40) == ("function_call", "n" * 40, "m" * 40)


@pytest.mark.parametrize("name", ["apply_patch", "tool_search", "mcp__x__y"])
def test_an_undeclared_tool_is_never_lifted_by_its_name(name):
    table = build([function("shell")])
    assert table.lift(name) is None
    assert called(table, name) == ("function_call", None, name)


def test_a_withheld_tool_is_understood_when_it_is_called():
    table = build([SEARCH, namespace("ns", deferred(custom("c")))])
    assert sent(table) == ["tool_search"]
    assert called(table, "ns__c") == ("custom_tool_call", "ns", "c")


def test_the_search_is_lifted():
    table = build([SEARCH])
    assert called(table, "tool_search", "{}") == ("tool_search_call", None, None)
    assert called(table, "tool_search", "[]") == ("function_call", None, "tool_search")
    assert table.search_row.upstream == table.search_name() == "tool_search"


# -- names of the history


def test_a_history_call_need_not_be_declared_now():
    table = build([function("shell")])
    assert table.upstream_name("mcp__gone", "m") == "mcp__gone__m"
    assert table.upstream_name(None, "apply_patch") == "apply_patch"
    assert table.upstream_name("functions", "apply_patch") == "apply_patch"
    assert table.upstream_name("bare", "bare") == "bare"
    assert table.search_name() == "tool_search"


def test_a_name_that_the_history_taught_is_restored_though_nothing_declares_it():
    table = build([])
    taught = table.upstream_name("n" * 60, "m" * 60)
    assert len(taught) == 64
    assert called(table, taught) == ("function_call", "n" * 60, "m" * 60)
    assert called(table, table.upstream_name("ns", "m")) == ("function_call", "ns", "m")
    assert called(table, table.search_name()) == ("function_call", None, "tool_search")


def test_a_malformed_search_of_the_history_is_the_search():
    taken = build([SEARCH, function("tool_search")])
    assert taken.upstream_name(None, "tool_search") == "tool_search"
    table = build([])
    assert table.upstream_name(None, "tool_search") == table.search_name()


# -- additional_tools


def test_additional_tools_join_behind_the_declared_ones():
    lite = additional(namespace("functions", custom("apply_patch")), function("shell"))
    table = build([function("f")], [lite, lite, additional()])
    assert sent(table) == ["f", "apply_patch", "shell"]
    assert table.notes == []
    assert [row.name for row in table.rows_of_history()] == ["apply_patch", "shell"]


def test_a_malformed_declaration_in_an_item_is_left_out_with_a_note():
    broken = [
        None,
        {"type": "function"},
        {"type": "custom", "name": "c", "format": {"type": "grammar"}},
        {"type": "namespace", "name": "ns"},
        namespace("ns", namespace("inner", function("x"))),
        {**SEARCH, "description": 3},
    ]
    table = build([], [additional(*broken, function("f"))])
    assert sent(table) == ["f"]
    assert table.notes == [
        "input[0].tools[1]: not a declaration; left out",
        "input[0].tools[2]: not a declaration; left out",
        "input[0].tools[4].tools[0]: not a declaration; left out",
        "input[0].tools[5]: not a declaration; left out",
    ]


def test_additional_tools_can_bring_the_search_and_deferred_tools():
    table = build([], [additional(SEARCH, deferred(function("f")))])
    assert sent(table) == ["tool_search"]
    assert "- f: f." in table.lower(table.rows())[0]["description"]


def test_an_item_that_gives_a_deferred_tool_makes_it_callable():
    tools = [SEARCH, deferred(function("f"))]
    table = build(tools, [additional(function("f"))])
    assert sent(table) == ["tool_search", "f"]
    assert table.public_tools(tools) == tools
    assert sent(build(tools, [additional(deferred(function("f")))])) == ["tool_search"]


# -- hosted tools


HOSTED = [{"type": "web_search", "filters": {}}, {"type": "mcp", "server_label": "x"}]


def test_hosted_tools_are_dropped_or_passed():
    tools = [HOSTED[0], function("f"), HOSTED[1], HOSTED[0]]
    assert build(tools).hosted == []
    assert build(tools, hosted="pass").hosted == HOSTED
    assert sent(build(tools)) == ["f"]


def test_hosted_tools_are_refused_where_they_stand():
    with pytest.raises(RequestError) as refused:
        build([function("f"), HOSTED[0]], hosted="reject")
    assert refused.value.param == "tools[1]"
    with pytest.raises(RequestError) as refused:
        build([], [additional(HOSTED[1])], hosted="reject")
    assert refused.value.param == "input[0].tools[0]"


@pytest.mark.parametrize("tool", [{"type": "tool_search"}, {**SEARCH, "execution": "server"}])
def test_a_search_of_the_service_is_hosted(tool):
    tools = [tool, deferred(function("f"))]
    table = build(tools)
    assert table.search_row is None
    # Nobody could ever load it here.
    assert sent(table) == ["f"]
    assert called(table, "tool_search", "{}") == ("function_call", None, "tool_search")


# -- loading


def test_public_tools_lose_defer_loading_only_where_loaded():
    mcp = {"type": "mcp", "server_label": "x", "defer_loading": True}
    tools = [
        deferred(function("f")),
        mcp,
        SEARCH,
        namespace("ns", deferred(function("a")), deferred(custom("b")), function("c")),
        deferred(function("g")),
    ]
    before = deepcopy(tools)
    table = build(tools, search(deferred(function("f")), namespace("ns", deferred(custom("b")))))
    public = table.public_tools(tools)
    assert public == [
        function("f"),
        mcp,
        SEARCH,
        namespace("ns", deferred(function("a")), custom("b"), function("c")),
        deferred(function("g")),
    ]
    assert tools == before
    assert build(tools).public_tools(tools) is tools


def test_a_declared_tool_that_a_search_finds_is_named_as_callable_and_not_promoted():
    table = build([SEARCH, function("f")], search(function("f", strict=True), function("g")))
    assert sent(table) == ["tool_search", "f", "g"]
    assert not table.find(None, "f").is_loaded
    assert [row.upstream for row in table.loaded["s1"]] == ["f", "g"]


def test_a_tool_that_is_found_twice_is_one():
    items = [*search(function("f"), function("f")), *search(function("f"), call_id="s2")]
    table = build([SEARCH], items)
    assert sent(table) == ["tool_search", "f"]
    assert [row.upstream for row in table.loaded["s1"]] == ["f"]
    assert table.loaded["s1"] == table.loaded["s2"]


def test_a_loaded_tool_of_another_kind_conflicts():
    table = build([SEARCH, deferred(function("f"))], search(custom("f")))
    assert sent(table) == ["tool_search"]
    assert table.notes == ["tool_search s1[0]: 'f' is not loaded: declared as function"]
    assert table.loaded == {"s1": []}


def test_a_malformed_loaded_tool_is_noted():
    table = build([SEARCH], search({"type": "function", "name": 3}))
    assert sent(table) == ["tool_search"]
    assert table.notes == ["tool_search s1[0]: '3' is not loaded: not a declaration"]


@pytest.mark.parametrize(
    ("declared", "found", "namespace_of_call"),
    [
        (None, function("f"), "f"),
        (deferred(function("f")), deferred(function("f")), "f"),
        (namespace("functions", deferred(function("f"))), deferred(function("f")), "functions"),
        (deferred(function("f")), namespace("functions", function("f")), "functions"),
        (namespace("ns", deferred(function("f"))), namespace("ns", function("f")), "ns"),
        (None, namespace("ns", function("f")), "ns"),
    ],
)
def test_the_namespace_of_a_loaded_tool(declared, found, namespace_of_call):
    table = build([SEARCH, *([declared] if declared else [])], search(found))
    name = sent(table)[-1]
    assert len(sent(table)) == 2
    assert called(table, name) == ("function_call", namespace_of_call, "f")
    assert table.find(namespace_of_call, "f").upstream == name
    assert "Tools that can be found" not in table.lower(table.rows())[0]["description"]


def test_loading_does_not_move_a_tool_that_upstream_has_seen():
    tools = [deferred(function("f")), SEARCH, function("g")]
    table = build(tools, search(function("f")), deferred="eager")
    assert sent(table) == ["f", "tool_search", "g"]
    assert table.find(None, "f").is_loaded


def test_a_bare_tool_and_a_member_of_its_own_name_cannot_both_be_loaded():
    member = namespace("f", function("f"))
    for first, second in ((member, function("f")), (function("f"), member)):
        table = build([SEARCH], search(first, second))
        assert len(sent(table)) == 2
        assert len(table.notes) == 1
        assert table.notes[0].endswith("is called by the same name")
        assert called(table, sent(table)[1]) == ("function_call", "f", "f")


def test_an_item_cannot_declare_what_could_not_be_told_from_a_loaded_tool():
    table = build([SEARCH], [*search(function("f")), additional(namespace("f", function("f")))])
    assert sent(table) == ["tool_search", "f"]
    assert len(table.notes) == 1


def test_a_loaded_tool_with_a_broken_grammar_is_noted_and_no_error():
    broken = custom("c", format={"type": "grammar", "syntax": "lark", "definition": "start: ("})
    table = build([SEARCH], search(broken, function("f")))
    assert sent(table) == ["tool_search", "f"]
    assert len(table.notes) == 1
    assert table.notes[0].startswith("tool_search s1[0]: 'c' is not loaded: ")
