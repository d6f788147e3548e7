"""What happens when: the sans-IO state machine of one response, and the history that it continues."""
