"""Reconciles Topics."""
