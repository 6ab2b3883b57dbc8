"""SASL: the authentication exchanges of both sides, without I/O, and the registry of mechanisms.

Terms: an *exchange* is one authentication, token by token (`exchange`); a *login* is what a client authenticates with
(`client_login`), a password or a token.

Start reading at `registry`: a mechanism is added there. Surprising: a SCRAM server continues with a decoy credential
for a user that it does not have (`scram_decoys`), so that clients cannot find out which users exist.
"""
