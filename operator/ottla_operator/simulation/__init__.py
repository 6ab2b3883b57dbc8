"""The operator in the broker's simulator: the real controller, planner and client against whole simulated clusters.

A third host, beside this machine's processes and Kubernetes' pods. Nothing else of the operator imports this package,
and only this package sees more of the broker than its client. See docs/simulator.md.
"""
