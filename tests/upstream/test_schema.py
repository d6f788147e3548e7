"""Declarations by profile: schemas (Q53), strict (Q54), tool_choice (Q55), how many (Q52)."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.upstream.profiles import load_profile
from gateway.upstream.schema import MAX_SCHEMAS, choose, functions, infer_type, moonshot, plain
from tests.upstream.lowered_requests import function, lowered

EMPTY = {"type": "object", "properties": {}}


def declare(tool, profile="default", **overrides):
    return functions(lowered(tools=[tool]), load_profile(profile, overrides))[0]


# -------------------------------------------------------------------------------- Q52, Q54, Q55


def test_q52_too_many_tools_are_refused_before_sending():
    tools = [function(f"f{n}") for n in range(4)]
    with pytest.raises(RequestError) as raised:
        functions(lowered(tools=tools), load_profile("default", {"max_tools": 3}))
    assert raised.value.message.startswith("Too many tools: 4 functions, but this model server")
    assert (raised.value.status, raised.value.param) == (400, "tools")
    assert len(functions(lowered(tools=tools), load_profile("default", {"max_tools": 4}))) == 4
    assert len(functions(lowered(tools=tools), load_profile("default", {"max_tools": 0}))) == 4


def test_a_tool_that_is_no_function_is_refused_by_name():
    with pytest.raises(RequestError, match="Tools of type 'web_search' are not supported"):
        functions(lowered(tools=[{"type": "web_search"}]), load_profile("default"))


@pytest.mark.parametrize("parameters", [None, {}, []])
def test_q53_a_function_without_parameters_has_an_empty_object(parameters):
    assert declare(function(parameters=parameters))["parameters"] == EMPTY


def test_q53_each_profile_has_its_own_pass():
    parameters = {"properties": {"a": {"pattern": "^x$"}}}
    assert declare(function(parameters=parameters))["parameters"] is parameters
    kimi = declare(function(parameters=parameters), "kimi")["parameters"]
    assert kimi["properties"]["a"] == {"type": "string", "pattern": "^x$"}
    ollama = declare(function(parameters=parameters), "ollama")["parameters"]
    assert ollama["properties"]["a"] == {}


def test_a_function_without_description_has_none():
    assert list(declare(function(description=None))) == ["name", "parameters", "strict"]


@pytest.mark.parametrize(
    ("mode", "given", "sent"),
    [
        ("false", {}, False),
        ("false", {"strict": None}, False),
        ("false", {"strict": True}, True),
        ("omit", {"strict": True}, None),
        ("keep", {}, None),
        ("keep", {"strict": None}, None),
        ("keep", {"strict": False}, False),
    ],
)
def test_q54_strict(mode, given, sent):
    assert declare(function(**given), strict=mode).get("strict") == sent


F, G = function("f"), function("g")
NAMED = {"type": "function", "name": "g"}


@pytest.mark.parametrize(
    ("form", "choice", "tools", "sent"),
    [
        ("forward", NAMED, [F, G], NAMED),
        ("forward", "none", [F, G], "none"),
        ("string", NAMED, [G], "required"),
        ("string", "none", [F, G], "none"),
        ("string", "required", [F, G], "required"),
        ("auto", NAMED, [G], "auto"),
        ("auto", "required", [F, G], "auto"),
        ("auto", "none", [F, G], "none"),
        ("omit", NAMED, [G], None),
        ("omit", "required", [F, G], None),
        ("omit", "none", [], None),
        ("omit", None, [F, G], None),
    ],
)
def test_q55_tool_choice(form, choice, tools, sent):
    profile = load_profile("default", {"tool_choice": form})
    assert choose(lowered(tool_choice=choice), [F, G], profile) == (tools, sent)


def test_q55_no_choice_without_tools():
    assert choose(lowered(tool_choice="required"), [], load_profile("default")) == ([], None)


@pytest.mark.parametrize("form", ["forward", "string", "auto", "omit"])
def test_q55_a_name_that_is_not_declared_is_refused(form):
    choice = {"type": "function", "name": "x"}
    profile = load_profile("default", {"tool_choice": form})
    with pytest.raises(RequestError, match="Tool choice 'x' not found in 'tools'"):
        choose(lowered(tool_choice=choice), [F, G], profile)


# --------------------------------------------------------------------------------------- moonshot


def test_q53_moonshot_leaves_a_good_schema_alone():
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "null"}}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert moonshot(schema) == schema


def test_q53_moonshot_types_are_filled_in():
    found = moonshot(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
                "text": {"description": "d"},
                "map": {"additionalProperties": {}},
                "list": {"items": True},
                "any": True,
            },
            "patternProperties": {"^x": {"minimum": 1}},
        }
    )
    assert "$schema" not in found
    assert found["type"] == "object"
    assert found["properties"]["text"] == {"type": "string", "description": "d"}
    assert found["properties"]["map"] == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    assert found["properties"]["list"] == {"type": "array", "items": True}
    assert found["properties"]["any"] == {"type": "string"}
    assert found["patternProperties"]["^x"]["type"] == "number"


def test_q53_moonshot_any_of_has_no_type_beside_it():
    found = moonshot(
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "anyOf": [{"enum": ["x"]}, {"type": "null"}, {}]},
                "b": {"anyOf": [{"type": "integer"}, True]},
            },
        }
    )
    assert found["properties"]["a"] == {
        "anyOf": [{"type": "string", "enum": ["x"]}, {"type": "null"}, {"type": "string"}]
    }
    assert found["properties"]["b"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}


def test_q53_moonshot_references_point_to_defs():
    schema = {
        "type": "object",
        "definitions": {"node": {"properties": {"next": {"$ref": "#/definitions/node"}}}},
        "$defs": {"unused": {}, "leaf": {"enum": [1, 2]}},
        "properties": {
            "a": {"$ref": "#/definitions/node", "description": "beside"},
            "b": {"$ref": "#/$defs/leaf"},
            "c": {"$ref": "#/properties/b"},
            "d": {"$ref": "#"},
            "e": {"$ref": "#/missing"},
        },
    }
    found = moonshot(schema)
    assert found["properties"]["a"] == {"$ref": "#/$defs/node"}
    assert found["properties"]["d"] == {"$ref": "#/$defs/root"}
    assert "definitions" not in found
    defs = found["$defs"]
    assert defs["node"]["properties"]["next"] == {"$ref": "#/$defs/node"}
    assert defs["leaf"] == {"type": "integer", "enum": [1, 2]}
    assert defs["root_properties_b"] == {"$ref": "#/$defs/leaf"}
    assert defs["root"]["type"] == "object"
    assert defs["root_missing"] == {"type": "string"}
    assert set(defs) == {"node", "leaf", "root", "root_properties_b", "root_missing"}


@pytest.mark.parametrize(
    ("schema", "properties"),
    [
        ({"type": "string"}, {}),
        ({"type": ["object", "null"], "properties": {"a": {"type": "null"}}}, {"a": "null"}),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}}, {"a": "string"}),
        ({"$ref": "#"}, {}),
        (
            {
                "properties": {"a": {}},
                "anyOf": [{"properties": {"b": {"type": "null"}}}, {"$ref": "#/$defs/x"}, True],
                "$defs": {"x": {"properties": {"c": {"items": {}}}}},
            },
            {"a": "string", "b": "null", "c": "array"},
        ),
        ({"oneOf": "not a list", "properties": []}, {}),
    ],
)
def test_q53_the_root_is_an_object(schema, properties):
    for convert in (moonshot, plain):
        found = convert(schema)
        assert found["type"] == "object"
        assert set(found["properties"]) == set(properties)
    typed = moonshot(schema)["properties"]
    assert {name: part["type"] for name, part in typed.items()} == properties


def test_q53_pointers_are_followed_through_lists_and_escapes():
    schema = {
        "properties": {
            "a/b~c": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
            "x": {"$ref": "#/properties/a~1b~0c/anyOf/1"},
            "y": {"$ref": "#/properties/a~1b~0c/anyOf/7"},
            "z": {"$ref": "#/properties/a~1b~0c/anyOf/x"},
        }
    }
    found = plain(schema)["properties"]
    assert found["x"] == {"type": "boolean"}
    assert found["y"] == found["z"] == {}


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"enum": ["a"]}, "string"),
        ({"enum": [True]}, "boolean"),
        ({"enum": []}, "string"),
        ({"const": 1.5}, "number"),
        ({"const": None}, "null"),
        ({"const": [1]}, "array"),
        ({"required": ["a"]}, "object"),
        ({"minItems": 1}, "array"),
        ({"maximum": 1}, "number"),
        ({}, "string"),
    ],
)
def test_q53_a_missing_type_is_inferred(schema, found):
    assert infer_type(schema) == found


# ------------------------------------------------------------------------------------------ plain


def test_q53_plain_keeps_what_ollama_keeps():
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "a": {"type": "string", "pattern": "^x$", "description": "d", "format": "uri"},
            "b": {"const": "x"},
            "c": {"oneOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": "array", "items": {"$ref": "#/$defs/e"}, "minItems": 1},
            "f": {"properties": {"g": True}},
        },
        "required": ["a"],
        "$defs": {"e": {"type": "integer", "minimum": 1}},
    }
    assert plain(schema) == {
        "type": "object",
        "required": ["a"],
        "properties": {
            "a": {"type": "string", "description": "d"},
            "b": {"enum": ["x"]},
            "c": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "d": {"type": "array", "items": {"type": "integer"}},
            "f": {"type": "object", "properties": {"g": {}}},
        },
    }


def test_q53_plain_ends_where_a_schema_meets_itself():
    schema = {"properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    next_one = plain(schema)["properties"]["next"]
    assert next_one["properties"]["next"] == {"type": "object"}


def test_q53_plain_ends_a_schema_that_doubles_at_each_step():
    defs = {
        f"d{n}": {
            "properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}, "b": {"$ref": f"#/$defs/d{n + 1}"}}
        }
        for n in range(60)
    }

    def size(schema):
        return 1 + sum(map(size, schema.get("properties", {}).values()))

    found = plain({"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": defs})
    assert size(found) < 3 * MAX_SCHEMAS


KEYS = st.sampled_from(
    ("type", "properties", "items", "anyOf", "allOf", "$ref", "enum", "const", "$defs", "x")
)
LEAVES = st.sampled_from(("object", "string", "#", "#/$defs/x", "#/items", "http://a/b", 1, None))
SCHEMAS = st.recursive(
    LEAVES | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, SCHEMAS, max_size=5))
def test_q53_no_schema_breaks_a_pass_or_is_changed_by_it(schema):
    kept = copy.deepcopy(schema)
    for convert in (moonshot, plain):
        found = convert(schema)
        assert found == convert(schema)
        assert found["type"] == "object"
        assert isinstance(found["properties"], dict)
    assert schema == kept
