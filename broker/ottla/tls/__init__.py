"""TLS: from settings (`ottla.config.tls_settings`) and files to the SSL contexts of listeners and clients.

Terms: *key material* is a private key with its certificate and the chain to its CA (`material`); *contexts* are what
OpenSSL needs for one listener or client (`contexts`); a *stamp* identifies the state of the files that were read, so
that `ottla.runtime.tls_contexts` builds the contexts again when one of them changes.

Invariants:

- A configuration error names the key or file, what is wrong with it and what to do; it never shows a secret.
- Objects with a private key do not print it.
- Only regular files of at most 1 MiB are read: a pipe or a device cannot block the node.

Start reading at `contexts.make_contexts`. `ciphers` maps Java's names of cipher suites to OpenSSL's,
`distinguished_name` writes a certificate's subject as Java does (principals are made of it), `errors` explains failed
handshakes.

Surprising: OpenSSL reads a key from files only, so it is given one in memory. Each certificate of a trust store is
trusted by itself, even without its issuer, as in Java. Stores of type JKS are accepted only if they are PKCS #12.
"""
