"""What every test needs: hypothesis without chance. Rooms keep fixtures in a conftest of their own."""

from hypothesis import settings

# Derandomised, so that a red run is red again; no deadline, since shared cores are slow at times.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
