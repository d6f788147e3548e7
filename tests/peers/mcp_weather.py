"""A weather service over MCP stdio, as small as MCP allows; every answer names its tool."""

import json
import sys
from typing import Any

JSON = dict[str, Any]

CITY = {"type": "string", "description": "City name"}
TOOLS: list[JSON] = [
    {
        "name": "get_forecast",
        "description": "Get the weather forecast for a city.",
        "inputSchema": {"type": "object", "properties": {"city": CITY}, "required": ["city"]},
    },
    {
        "name": "list-stations",
        "description": "List weather stations near a city.",
        "inputSchema": {"type": "object", "properties": {"city": CITY}, "required": ["city"]},
    },
]


def answer(method: str, params: JSON) -> JSON:
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "weather", "version": "1"},
            "instructions": "Weather tools.",
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        city = params.get("arguments", {}).get("city", "?")
        return {"content": [{"type": "text", "text": f"{params['name']}: {city} is sunny, 21 C"}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result = answer(request["method"], request.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
