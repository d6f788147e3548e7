"""What is done from a terminal beside serving: `codex`, `doctor`, `demo`."""
