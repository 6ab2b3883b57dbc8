"""Who a node is, and the Java classes that Kafka lets in. The format of the rows is `ottla.config.table`'s."""

ROWS = """
alter.config.policy.class.name CLASS - - - read-only refused
    A Java class that vets config changes; this release would not ask it.
authorizer.class.name STRING "" - - read-only acted-on
    Empty lets everybody do everything; Kafka's StandardAuthorizer asks the access control entries.
broker.heartbeat.interval.ms INT 2000 - ms read-only acted-on
    How often a broker tells the controller that it lives.
broker.id INT -1 - - read-only acted-on
    The old name of node.id.
broker.rack STRING - - - read-only acted-on
    Where this broker stands; replicas are spread over racks.
broker.session.timeout.ms INT 9000 - ms read-only acted-on
    Silence after which the controller fences a broker.
client.quota.callback.class CLASS - - - read-only refused
    A Java class that decides quotas; this release would not ask it.
config.providers LIST "" list - cluster-wide refused
    Kafka would replace ${...} in values by what these classes return; this release would take the text
    literally.
controlled.shutdown.enable BOOLEAN true - - read-only acted-on
    Move leaderships away before stopping.
create.topic.policy.class.name CLASS - - - read-only refused
    A Java class that vets new topics; this release would not ask it.
initial.broker.registration.timeout.ms INT 60000 - ms read-only acted-on
    How long a starting broker tries to register before it gives up.
inter.broker.listener.name STRING - - - read-only acted-on
    The listener that brokers use among themselves.
node.id INT - 0.. - read-only acted-on
    This node's number, one of its kind in the cluster.
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - - per-broker refused
    A Java class that names principals; this release has its own rules only.
process.roles LIST - list+:broker|controller - read-only acted-on
    broker, controller or both.
security.inter.broker.protocol STRING PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL - read-only acted-on
    The security protocol among brokers, where no listener is named for it.
security.providers STRING - - - read-only refused
    Java security providers have no meaning here.
server.max.startup.time.ms LONG 9223372036854775807 0.. ms read-only known unlisted
    Give up starting after this long.
"""  # noqa: E501 - some of Kafka's defaults are long
