"""What is said: JSON, SSE framing, requests, items, events and the Response object. No decisions, no I/O."""
