"""Ottla's broker, its client and its command line; see README.md next to this package."""

__version__ = "0.1.0"
"""Of this release; as in pyproject.toml."""
