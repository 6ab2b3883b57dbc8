"""Clients: simulated producers, consumers, group members and administrators on hosts of their own.

They speak the wire protocol over the network fabric, and report the responses of nodes to the state observer.
Start reading at `client_host` (connections, metadata, requests), then `producer`. `requests` is for tests that hold
one connection. Surprising: `voter_reconciler` is an administrator who keeps every controller a voter.
"""
