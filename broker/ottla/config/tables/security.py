"""TLS, SASL and delegation tokens. The format of the rows is `ottla.config.table`'s."""

ROWS = """
delegation.token.expiry.check.interval.ms LONG 3600000 1.. ms read-only acted-on
    How often expired delegation tokens are removed.
delegation.token.expiry.time.ms LONG 86400000 1.. ms read-only acted-on
    Life of a delegation token between renewals.
delegation.token.max.lifetime.ms LONG 604800000 1.. ms read-only acted-on
    Longest life of a delegation token.
delegation.token.secret.key PASSWORD - - - read-only acted-on
    Key that the secrets of delegation tokens are derived from, the same on all nodes; without it there are no tokens.
sasl.client.callback.handler.class CLASS - - - read-only known
    A Java class for SASL clients.
sasl.enabled.mechanisms LIST GSSAPI list - per-broker acted-on
    SASL mechanisms that listeners offer.
sasl.jaas.config PASSWORD - - - per-broker acted-on
    Login of a SASL listener, in JAAS syntax.
sasl.kerberos.kinit.cmd STRING /usr/bin/kinit - - per-broker known
    Kerberos is not served.
sasl.kerberos.min.time.before.relogin LONG 60000 - ms per-broker known
    Kerberos is not served.
sasl.kerberos.principal.to.local.rules LIST DEFAULT list - per-broker known
    Kerberos is not served.
sasl.kerberos.service.name STRING - - - per-broker known
    Kerberos is not served.
sasl.kerberos.ticket.renew.jitter DOUBLE 0.05 - - per-broker known
    Kerberos is not served.
sasl.kerberos.ticket.renew.window.factor DOUBLE 0.8 - - per-broker known
    Kerberos is not served.
sasl.login.callback.handler.class CLASS - - - read-only known
    A Java class for SASL logins.
sasl.login.class CLASS - - - read-only known
    A Java class for SASL logins.
sasl.login.connect.timeout.ms INT - - ms read-only acted-on
    Wait for a connection to a token endpoint.
sasl.login.read.timeout.ms INT - - ms read-only acted-on
    Timeout of a token endpoint's response.
sasl.login.refresh.buffer.seconds SHORT 300 - s per-broker known
    A token is renewed this long before it ends.
sasl.login.refresh.min.period.seconds SHORT 60 - s per-broker known
    Shortest time between two renewals.
sasl.login.refresh.window.factor DOUBLE 0.8 - - per-broker known
    Share of a token's life after which it is renewed.
sasl.login.refresh.window.jitter DOUBLE 0.05 - - per-broker known
    Jitter of that share.
sasl.login.retry.backoff.max.ms LONG 10000 - ms read-only known
    Longest backoff after a failed login.
sasl.login.retry.backoff.ms LONG 100 - ms read-only known
    First backoff after a failed login.
sasl.mechanism.controller.protocol STRING GSSAPI - - read-only acted-on
    SASL mechanism among controllers.
sasl.mechanism.inter.broker.protocol STRING GSSAPI - - per-broker acted-on
    SASL mechanism among brokers.
sasl.oauthbearer.assertion.algorithm STRING RS256 i:ES256|RS256 - read-only known
    Signature of a client assertion.
sasl.oauthbearer.assertion.claim.aud STRING - - - read-only known
    Audience of a client assertion.
sasl.oauthbearer.assertion.claim.exp.seconds INT 300 0..86400 s read-only known
    Life of a client assertion.
sasl.oauthbearer.assertion.claim.iss STRING - - - read-only known
    Issuer of a client assertion.
sasl.oauthbearer.assertion.claim.jti.include BOOLEAN false - - read-only known
    Give each client assertion an id.
sasl.oauthbearer.assertion.claim.nbf.seconds INT 60 0..3600 s read-only known
    How far back a client assertion is valid.
sasl.oauthbearer.assertion.claim.sub STRING - - - read-only known
    Subject of a client assertion.
sasl.oauthbearer.assertion.file STRING - - - read-only known
    File with a client assertion.
sasl.oauthbearer.assertion.private.key.file STRING - - - read-only known
    Key that signs client assertions.
sasl.oauthbearer.assertion.private.key.passphrase PASSWORD - - - read-only known
    Passphrase of that key.
sasl.oauthbearer.assertion.template.file STRING - - - read-only known
    Template of client assertions.
sasl.oauthbearer.client.credentials.client.id STRING - - - read-only known
    Client id at the token endpoint.
sasl.oauthbearer.client.credentials.client.secret PASSWORD - - - read-only known
    Client secret at the token endpoint.
sasl.oauthbearer.clock.skew.seconds INT 30 - s read-only acted-on
    Clock skew that is tolerated in tokens.
sasl.oauthbearer.expected.audience LIST "" list - read-only acted-on
    Audiences that a token may be for.
sasl.oauthbearer.expected.issuer STRING - - - read-only acted-on
    Issuer that a token must have.
sasl.oauthbearer.jwks.endpoint.refresh.ms LONG 3600000 - ms read-only acted-on
    How often signing keys are fetched.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms LONG 10000 - ms read-only acted-on
    Longest backoff after a failed fetch of keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms LONG 100 - ms read-only acted-on
    First backoff after a failed fetch of keys.
sasl.oauthbearer.jwks.endpoint.url STRING - - - read-only acted-on
    Where signing keys are.
sasl.oauthbearer.jwt.retriever.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever - - read-only known
    A Java class that gets tokens.
sasl.oauthbearer.jwt.validator.class CLASS org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator - - read-only known
    A Java class that checks tokens.
sasl.oauthbearer.scope STRING - - - read-only known
    Scope that a client requests.
sasl.oauthbearer.scope.claim.name STRING scope - - read-only acted-on
    Claim that holds the scope.
sasl.oauthbearer.sub.claim.name STRING sub - - read-only acted-on
    Claim that holds the subject.
sasl.oauthbearer.token.endpoint.url STRING - - - read-only acted-on
    File with the token that this node authenticates with at other nodes.
sasl.server.callback.handler.class CLASS - - - read-only known
    A Java class for SASL servers.
sasl.server.max.receive.size INT 524288 - bytes read-only acted-on
    Largest SASL message before authentication is complete.
ssl.allow.dn.changes BOOLEAN false - - read-only acted-on
    A new certificate may have another distinguished name.
ssl.allow.san.changes BOOLEAN false - - read-only acted-on
    A new certificate may be for fewer names than the one before.
ssl.cipher.suites LIST "" list - per-broker acted-on
    Ciphers, by Java's or by OpenSSL's names; empty leaves them to the library. Those of TLS 1.3 go together.
ssl.client.auth STRING none required|requested|none - per-broker acted-on
    Whether clients must present a certificate: none, requested or required.
ssl.enabled.protocols LIST TLSv1.2,TLSv1.3 list - per-broker acted-on
    Versions of TLS: TLSv1.2, TLSv1.3.
ssl.endpoint.identification.algorithm STRING https - - per-broker acted-on
    https checks that another node's certificate is for the host name that it connects to; empty does not.
ssl.engine.factory.class CLASS - - - per-broker rejected
    A Java class that creates TLS engines, which would not be called.
ssl.key.password PASSWORD - - - per-broker acted-on
    Password of the private key in a PEM file or in ssl.keystore.key.
ssl.keymanager.algorithm STRING SunX509 - - per-broker known
    Java's key manager.
ssl.keystore.certificate.chain PASSWORD - - - per-broker acted-on
    Certificates of ssl.keystore.key as PEM, its own first.
ssl.keystore.key PASSWORD - - - per-broker acted-on
    Private key as PEM (PKCS #8).
ssl.keystore.location STRING - - - per-broker acted-on
    File with private key and certificates; checked every few seconds for new ones.
ssl.keystore.password PASSWORD - - - per-broker acted-on
    Password of a PKCS12 file.
ssl.keystore.type STRING JKS - - per-broker acted-on
    PEM or PKCS12; a file of Java's own JKS is rejected.
ssl.principal.mapping.rules STRING DEFAULT - - read-only acted-on
    How the name in a client's certificate becomes a principal: DEFAULT or RULE:pattern/replacement/[LU], ...
ssl.protocol STRING TLSv1.3 - - per-broker acted-on
    TLSv1.3 or TLSv1.2; ssl.enabled.protocols decides.
ssl.provider STRING - - - per-broker known
    Java's TLS provider.
ssl.secure.random.implementation STRING - - - per-broker known
    Java's source of randomness.
ssl.trustmanager.algorithm STRING PKIX - - per-broker known
    Java's trust manager.
ssl.truststore.certificates PASSWORD - - - per-broker acted-on
    Trusted certificates as PEM.
ssl.truststore.location STRING - - - per-broker acted-on
    File with trusted certificates; checked every few seconds for new ones.
ssl.truststore.password PASSWORD - - - per-broker acted-on
    Password of a PKCS12 file.
ssl.truststore.type STRING JKS - - per-broker acted-on
    PEM or PKCS12; a file of Java's own JKS is rejected.
"""  # noqa: E501 - some of Kafka's defaults are long
