"""Reconciles one Cluster."""
