"""Tests the tool protocol end to end, and says who is at fault."""
