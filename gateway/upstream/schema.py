"""Function declarations and `tool_choice` in the form that one server takes.

JSON Schema has dialects (Q53): Moonshot refuses what is not its flavour, Ollama loses most keys.
The passes only make what goes upstream; the public echo of `tools` never comes from here.
"""

from collections.abc import Callable
from typing import Any

from gateway.errors import RequestError
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON

# Ollama's api/types.go keeps these and drops the rest before the template sees the tool.
PLAIN_KEYS = ("type", "description", "enum", "required", "title", "default")

# References that are expanded in place can double at each step; no tool that a model can read has
# this many schemas.
MAX_SCHEMAS = 2000

# A keyword that gives its schema's type away, in the order of trust.
TYPE_SIGNS = {
    "properties": "object",
    "additionalProperties": "object",
    "required": "object",
    "items": "array",
    "prefixItems": "array",
    "minItems": "array",
    "pattern": "string",
    "minLength": "string",
    "maxLength": "string",
    "format": "string",
    "minimum": "number",
    "maximum": "number",
    "multipleOf": "number",
}
JSON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}

COMBINERS = ("anyOf", "oneOf", "allOf")
MAPS_OF_SCHEMAS = ("properties", "patternProperties", "$defs")
SCHEMA_KEYS = ("items", "additionalProperties", "not", "if", "then", "else", "contains")


def functions(lowered: JSON, profile: Profile) -> list[JSON]:
    """The declarations of a request as flat functions: name, description, parameters, strict?

    Raises:
        RequestError: more than the server takes (Q52), or something that is no function.
    """
    tools: list[JSON] = lowered.get("tools") or []
    if profile.max_tools and len(tools) > profile.max_tools:
        raise RequestError(
            f"Too many tools: {len(tools)} functions, but this model server takes at most "
            f"{profile.max_tools}. Declare fewer, or defer some behind tool_search.",
            param="tools",
            code="array_above_max_length",
        )
    return [_function(tool, profile) for tool in tools]


def _function(tool: JSON, profile: Profile) -> JSON:
    if tool.get("type") != "function":
        raise RequestError(
            f"Tools of type '{tool.get('type')}' are not supported by this model server.",
            param="tools",
            code="invalid_value",
        )
    function: JSON = {"name": tool["name"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    parameters = tool.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        parameters = {"type": "object", "properties": {}}
    function["parameters"] = PASSES[profile.schema](parameters)
    if profile.strict == "false":
        function["strict"] = tool.get("strict") is True
    elif profile.strict == "keep" and isinstance(tool.get("strict"), bool):
        function["strict"] = tool["strict"]
    return function


def choose(
    lowered: JSON, tools: list[JSON], profile: Profile
) -> tuple[list[JSON], str | JSON | None]:
    """The tools to send and the `tool_choice` beside them (Q55); None = the field is not sent.

    A server that cannot be told to call one tool is shown only that one; one that cannot be told to
    call none is shown none.
    """
    choice = lowered.get("tool_choice")
    if choice is None or not tools:
        return tools, None
    form = profile.tool_choice
    if isinstance(choice, dict) and all(tool.get("name") != choice.get("name") for tool in tools):
        raise RequestError(
            f"Tool choice '{choice.get('name')}' not found in 'tools'.",
            param="tool_choice",
            code="invalid_value",
        )
    if form == "forward":
        return tools, choice
    if isinstance(choice, dict):
        tools = [tool for tool in tools if tool.get("name") == choice["name"]]
        choice = "required"
    if form == "omit":
        return ([] if choice == "none" else tools), None
    if form == "auto" and choice == "required":
        choice = "auto"
    return tools, choice


# ---------------------------------------------------------------------------------------- moonshot


def moonshot(schema: JSON) -> JSON:
    """Kimi's flavour: the root is an object, each schema has a type, `$ref` only to `#/$defs/`."""
    flavour = _Moonshot(schema)
    root = flavour.convert(as_object(schema))
    root.pop("$schema", None)
    while flavour.pending:
        name, ref = flavour.pending.pop()
        flavour.defs[name] = flavour.convert(_resolve(ref, schema))
    return {**root, "$defs": flavour.defs} if flavour.defs else root


class _Moonshot:
    def __init__(self, root: JSON) -> None:
        self._root = root
        self.defs: dict[str, JSON] = {}
        self.pending: list[tuple[str, str]] = []  # definitions that are referred to, not made yet

    def convert(self, schema: Any) -> JSON:
        if not isinstance(schema, dict):  # `true`, `false`
            schema = {}
        ref = schema.get("$ref")
        if isinstance(ref, str):
            return {"$ref": f"#/$defs/{self._define(ref)}"}
        result: JSON = {}
        for key, value in schema.items():
            if key in ("$defs", "definitions"):
                continue  # only what is referred to comes back, under one name
            if key in MAPS_OF_SCHEMAS and isinstance(value, dict):
                result[key] = {name: self.convert(part) for name, part in value.items()}
            elif key in COMBINERS and isinstance(value, list):
                result[key] = [self.convert(part) for part in value]
            elif key in SCHEMA_KEYS and isinstance(value, dict):
                result[key] = self.convert(value)
            else:
                result[key] = value
        return _typed(result, schema)

    def _define(self, ref: str) -> str:
        """The name in `$defs` of what `ref` points to; it is put there when it was elsewhere."""
        name = ref.removeprefix("#/$defs/").removeprefix("#/definitions/")
        name = name.replace("#", "root").replace("/", "_")
        if name not in self.defs:
            self.defs[name] = {}
            self.pending.append((name, ref))
        return name


def _typed(result: JSON, schema: JSON) -> JSON:
    """The type belongs into the branches of an `anyOf`, and everywhere else it must be there."""
    combined = [key for key in COMBINERS if isinstance(result.get(key), list)]
    if not combined:
        return result if "type" in result else {"type": infer_type(schema), **result}
    own = result.pop("type", None)
    if own is not None:
        for key in combined:
            # A branch that said nothing of its own had its type inferred; the parent knows better.
            branches = zip(result[key], schema[key], strict=True)
            result[key] = [
                {**branch, "type": own} if _is_untyped(source) else branch
                for branch, source in branches
            ]
    return result


def _is_untyped(source: Any) -> bool:
    signs = ("type", "$ref", *COMBINERS)
    return not (isinstance(source, dict) and any(key in source for key in signs))


def infer_type(schema: JSON) -> str:
    """The type that a schema does not say; `string` when nothing gives it away."""
    values = schema.get("enum")
    samples = values if isinstance(values, list) and values else []
    if "const" in schema:
        samples = [schema["const"]]
    if samples:
        return JSON_TYPES.get(type(samples[0]), "string")
    return next((found for key, found in TYPE_SIGNS.items() if key in schema), "string")


# ------------------------------------------------------------------------------------------- plain


def plain(schema: JSON) -> JSON:
    """Only what survives Ollama: references are expanded, other keywords left out."""
    return _Plain(schema).convert(as_object(schema), ())


class _Plain:
    def __init__(self, root: JSON) -> None:
        self._root = root
        self._left = MAX_SCHEMAS

    def convert(self, schema: Any, path: tuple[str, ...]) -> JSON:
        """`path`: the references on the way here; one that meets itself is not followed again."""
        self._left -= 1
        if not isinstance(schema, dict):
            return {}
        ref = schema.get("$ref")
        if isinstance(ref, str):
            if ref in path or self._left < 0:
                return {"type": "object"}
            others = {key: value for key, value in schema.items() if key != "$ref"}
            return self.convert({**_resolve(ref, self._root), **others}, (*path, ref))
        result: JSON = {key: schema[key] for key in PLAIN_KEYS if key in schema}
        if "const" in schema:
            result["enum"] = [schema["const"]]
        properties = schema.get("properties")
        if isinstance(properties, dict):
            result["properties"] = {
                name: self.convert(part, path) for name, part in properties.items()
            }
            result.setdefault("type", "object")
        if "items" in schema:
            result["items"] = self.convert(schema["items"], path)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                result["anyOf"] = [self.convert(part, path) for part in schema[key]]
        return result


# ------------------------------------------------------------------------------------------ shared


def as_object(schema: JSON) -> JSON:
    """A root of type object: arguments are one. Branches of a combined root share their properties."""
    root, seen = schema, set()
    while isinstance(ref := schema.get("$ref"), str) and ref not in seen:
        seen.add(ref)
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**rest, **_resolve(ref, root)}
    properties = _properties(schema)
    for key in COMBINERS:
        branches = schema.get(key)
        for branch in branches if isinstance(branches, list) else ():
            ref = branch.get("$ref") if isinstance(branch, dict) else None
            properties |= _properties(_resolve(ref, root) if isinstance(ref, str) else branch)
    rest = {key: value for key, value in schema.items() if key not in ("$ref", *COMBINERS)}
    return {**rest, "type": "object", "properties": properties}


def _properties(schema: Any) -> JSON:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _resolve(ref: str, root: JSON) -> JSON:
    """What a local pointer points to; `{}` when there is no such place."""
    target: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        else:
            target = target.get(key) if isinstance(target, dict) else None
    return target if isinstance(target, dict) else {}


def _keep(schema: JSON) -> JSON:
    return schema


PASSES: dict[str, Callable[[JSON], JSON]] = {"keep": _keep, "moonshot": moonshot, "plain": plain}
