"""Nodes as processes of this machine, objects and Secrets as files of a state directory."""
