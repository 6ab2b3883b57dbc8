"""For every test: no claim is about wall-clock time, so Hypothesis keeps no deadline either."""

from hypothesis import settings

settings.register_profile("ottla", deadline=None)
settings.load_profile("ottla")
