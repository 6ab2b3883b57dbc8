"""For every test: no claim is about wall-clock time, so Hypothesis keeps no deadline and no stopwatch either."""

from hypothesis import HealthCheck, settings

settings.register_profile("ottla", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ottla")
