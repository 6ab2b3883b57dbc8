"""Principals, permissions and quotas.

`principal_mapping` derives a principal from a client certificate; SASL users come from `ottla.sasl`. `authorizer`
evaluates the ACLs of the metadata, `denials` counts and logs denied operations, `quotas` limits clients. Start reading
at `authorizer`.
"""
