"""Requests that show each kind of tool, with a history in which it was used: small models follow an example.

`doctor` asks them to see what comes back, `demo` asks one to be looked at.
"""

from collections.abc import Callable
from typing import Any, Final

from gateway.wire.json import JSON

# A call of these tools has 20 to 80 tokens; a model that rambles is cut.
MAX_CALL_TOKENS: Final = 256
MAX_ANSWER_TOKENS: Final = 64

# What Codex 0.147 and 0.171 declare: its grammar, word for word.
PATCH_GRAMMAR: Final = r"""start: begin_patch hunk+ end_patch
begin_patch: "*** Begin Patch" LF
end_patch: "*** End Patch" LF?

hunk: add_hunk | delete_hunk | update_hunk
add_hunk: "*** Add File: " filename LF add_line+
delete_hunk: "*** Delete File: " filename LF
update_hunk: "*** Update File: " filename LF change_move? change?

filename: /(.+)/
add_line: "+" /(.*)/ LF -> line

change_move: "*** Move to: " filename LF
change: (change_context | change_line)+ eof_line?
change_context: ("@@" | "@@ " /(.+)/) LF
change_line: ("+" | "-" | " ") /(.*)/ LF
eof_line: "*** End of File" LF

%import common.LF
"""
DATE_PATTERN: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"

# What is asked about: four times with an answer, once without.
_CITIES: Final = ("Paris", "Rome", "Madrid", "Vienna", "Oslo")
_PAIRS: Final = (
    "Paris and in Rome",
    "Bonn and in Kiel",
    "Lima and in Quito",
    "Bern and in Graz",
    "Oslo and in Cairo",
)
_FILES: Final = ("a", "b", "c", "d", "hello")
_DAYS: Final = ("first of May", "31st of July", "5th of March", "9th of October", "first of June")
_TOPICS: Final = ("the calendar", "mail", "maps", "music", "the weather")

_CITY: Final[JSON] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: Final[JSON] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "strict": False,
    "parameters": _CITY,
}
PATCH: Final[JSON] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files. Write the patch as plain text, not as JSON.",
    "format": {"type": "grammar", "syntax": "lark", "definition": PATCH_GRAMMAR},
}
DATE: Final[JSON] = {
    "type": "custom",
    "name": "set_date",
    "description": "Sets the date, written like 2026-01-31.",
    "format": {"type": "grammar", "syntax": "regex", "definition": DATE_PATTERN},
}
FORECAST: Final[JSON] = {
    "type": "namespace",
    "name": "mcp__weather",
    "description": "Weather tools.",
    "tools": [{**WEATHER, "name": "get_forecast", "description": "The forecast for a city."}],
}
SEARCH: Final[JSON] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools that are not loaded yet.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}


def user(text: str) -> JSON:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def assistant(text: str) -> JSON:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


def function_round(call_id: str, name: str, arguments: str, output: str, **more: str) -> list[JSON]:
    """A function call and its output."""
    call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
    return [{**call, **more}, function_output(call_id, output)]


def function_output(call_id: str, output: str) -> JSON:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def custom_round(call_id: str, name: str, text: str, output: str) -> list[JSON]:
    """A custom call and its output."""
    return [
        {"type": "custom_tool_call", "call_id": call_id, "name": name, "input": text},
        {"type": "custom_tool_call_output", "call_id": call_id, "output": output},
    ]


def request(model: str, items: list[JSON], tools: list[JSON] | None = None, **more: Any) -> JSON:
    """A request; with tools one of them is asked for."""
    body: JSON = {"model": model, "input": items, "store": False, "temperature": 0}
    if tools is not None:
        body |= {"tools": tools, "tool_choice": "required", "max_output_tokens": MAX_CALL_TOKENS}
    else:
        body["max_output_tokens"] = MAX_ANSWER_TOKENS
    return {**body, **more}


def text(model: str) -> JSON:
    """A plain question whose answer is some words long."""
    return request(model, [user("Count from one to twenty in words, separated by commas.")])


def function(model: str) -> JSON:
    def round_of(at: int) -> list[JSON]:
        arguments = f'{{"city": "{_CITIES[at]}"}}'
        return function_round(f"call_{at}", "get_weather", arguments, "Sunny.")

    return request(model, _taught("Get the weather for {}", _CITIES, round_of), [WEATHER])


def parallel(model: str) -> JSON:
    """Two calls at once were made before, and are asked for again."""

    def round_of(at: int) -> list[JSON]:
        cities = _PAIRS[at].split(" and in ")
        rounds = [
            function_round(f"call_{at}{n}", "get_weather", f'{{"city": "{city}"}}', "Sunny.")
            for n, city in enumerate(cities)
        ]
        return [*(made[0] for made in rounds), *(made[1] for made in rounds)]

    history = _taught("What is the weather in {}? Ask for both at once.", _PAIRS, round_of)
    return request(model, history, [WEATHER], parallel_tool_calls=True)


def new_file(name: str, line: str) -> str:
    """A patch that adds a file of one line."""
    return f"*** Begin Patch\n*** Add File: {name}\n+{line}\n*** End Patch\n"


def patch(model: str) -> JSON:
    def round_of(at: int) -> list[JSON]:
        text = new_file(f"{_FILES[at]}.txt", f"hello {_FILES[at]}")
        return custom_round(f"call_{at}", "apply_patch", text, "Success")

    return request(model, _taught("Create the file {}.txt", _FILES, round_of), [PATCH])


def constraint(model: str) -> JSON:
    """The history teaches a form that the grammar refuses: only a server that is held to it keeps to it."""

    def round_of(at: int) -> list[JSON]:
        return custom_round(f"call_{at}", "set_date", f"the {_DAYS[at]}", "Success")

    return request(model, _taught("Set the date to the {}.", _DAYS, round_of), [DATE])


def namespace(model: str) -> JSON:
    def round_of(at: int) -> list[JSON]:
        arguments = f'{{"city": "{_CITIES[at]}"}}'
        return function_round(
            f"call_{at}", "get_forecast", arguments, "Sunny.", namespace="mcp__weather"
        )

    return request(model, _taught("What is the forecast for {}?", _CITIES, round_of), [FORECAST])


def search(model: str) -> JSON:
    def round_of(at: int) -> list[JSON]:
        same = {"call_id": f"call_{at}", "execution": "client", "status": "completed"}
        query = {"query": _TOPICS[at]}
        return [
            {**same, "type": "tool_search_call", "arguments": query},
            {**same, "type": "tool_search_output", "tools": []},
        ]

    return request(model, _taught("Search the tools for {}", _TOPICS, round_of), [SEARCH])


def _taught(
    question: str, subjects: tuple[str, ...], round_of: Callable[[int], list[JSON]]
) -> list[JSON]:
    """The question about each subject with the call that answered it; about the last one it is open.

    A model of 135M parameters calls after four rounds; after two it writes an output of its own.
    """
    history: list[JSON] = []
    for at, subject in enumerate(subjects[:-1]):
        history += [user(question.format(subject)), *round_of(at), assistant("Done.")]
    return [*history, user(question.format(subjects[-1]))]


def long(model: str, words: int) -> JSON:
    """A question behind so many words (about as many tokens)."""
    padding = "one two three four five six seven eight nine ten " * (words // 10)
    return request(model, [user(f"{padding}\nAnswer with one word: yes.")], max_output_tokens=8)
