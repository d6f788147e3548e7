"""The garbage collector while turns run: it looks at what turns make, not at the modules, and less often.

Nearly all of what a turn makes is freed by its reference count. What is left are a few cycles a turn (a task and its
exception, a connection and its protocol), so the collector's default of a pass every 700 new containers is a pass
every few dozen events that finds nothing (measured: docs/performance.md).
"""

import gc

# New containers before the youngest generation is looked at: about a turn of a thousand events.
MAX_YOUNG_OBJECTS = 10_000


def settle() -> None:
    """The start is over: what exists now stays for good."""
    gc.collect()
    gc.freeze()
    _, middle, old = gc.get_threshold()
    gc.set_threshold(MAX_YOUNG_OBJECTS, middle, old)
