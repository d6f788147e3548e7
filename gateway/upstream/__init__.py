"""Where models answer: the dialects, the profiles and the only HTTP client."""
