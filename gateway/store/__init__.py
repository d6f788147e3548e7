"""What outlives a turn."""
