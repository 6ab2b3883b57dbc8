"""Reconciles Users."""
