"""An agent of our own: asks a running gateway as its clients do, for `doctor` and `demo`."""
