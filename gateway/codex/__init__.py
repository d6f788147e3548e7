"""What Codex needs to be told."""
