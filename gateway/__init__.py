"""responses-gateway: the Responses API of coding agents in front of model servers that know function tools only."""

__version__ = "0.1.0"
