"""What the text of a custom tool may be: load, check, unwrap, pattern. Knows no tool and no wire."""
