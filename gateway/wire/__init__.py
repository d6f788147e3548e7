"""What is said: JSON, SSE framing, requests, items, events, the Response. No decisions, no I/O."""
