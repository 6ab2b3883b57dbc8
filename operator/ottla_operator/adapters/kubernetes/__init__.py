"""Nodes as pods, Secrets and plans as Kubernetes objects, over one client of the API server."""
