"""Planning of one User: access control entries, quotas, password or certificate, its Secret, and its deletion.

Terms: *credential*: a password and the SCRAM mechanism and iterations under which brokers store it; *overlap*: how long
the previous password stays valid, under the other mechanism; *reserved*: a principal that no User may have.

Invariants: the Secret is written before brokers get a new password, so none is lost. Access control entries and quotas
do not wait for the Secret, above all not their removal. New trusted certificates in an existing Secret do not wait for
its credential, because the rotation of the cluster's authority waits for them. Entries are removed only after others
that allow the same exist. No step, message or log contains a password.

Start with `plan.plan_user`; `certificate` is for Users of the type tls.

Surprising: the number of SCRAM iterations identifies a credential, because brokers show it and never the password; it
is therefore chosen at random, and a password set by other tools is detected and replaced.
"""
