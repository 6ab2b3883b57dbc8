"""Identity of a node, and the Java classes that Kafka loads. The format of the rows is `ottla.config.table`'s."""

ROWS = """
alter.config.policy.class.name CLASS - - - read-only rejected
    A Java class that vets config changes; this release would not call it.
authorizer.class.name STRING "" - - read-only acted-on
    Empty allows every operation; Kafka's StandardAuthorizer evaluates the access control entries.
broker.heartbeat.interval.ms INT 2000 - ms read-only acted-on
    How often a broker sends a heartbeat to the controller.
broker.id INT -1 - - read-only acted-on
    The old name of node.id.
broker.rack STRING - - - read-only acted-on
    The rack of this broker; replicas are spread over racks.
broker.session.timeout.ms INT 9000 - ms read-only acted-on
    Time without a heartbeat after which the controller fences a broker.
client.quota.callback.class CLASS - - - read-only rejected
    A Java class that decides quotas; this release would not call it.
config.providers LIST "" list - cluster-wide rejected
    Kafka would replace ${...} in values by what these classes return; this release would use the value
    literally.
controlled.shutdown.enable BOOLEAN true - - read-only acted-on
    Move leaderships away before stopping.
create.topic.policy.class.name CLASS - - - read-only rejected
    A Java class that vets new topics; this release would not call it.
initial.broker.registration.timeout.ms INT 60000 - ms read-only acted-on
    How long a starting broker tries to register before it gives up.
inter.broker.listener.name STRING - - - read-only acted-on
    The listener that brokers use among themselves.
node.id INT - 0.. - read-only acted-on
    This node's id, unique in the cluster.
principal.builder.class CLASS org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - - per-broker rejected
    A Java class that names principals; this release has its own rules only.
process.roles LIST - list+:broker|controller - read-only acted-on
    broker, controller or both.
security.inter.broker.protocol STRING PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL - read-only acted-on
    The security protocol among brokers, if inter.broker.listener.name is not set.
security.providers STRING - - - read-only rejected
    Java security providers have no meaning here.
server.max.startup.time.ms LONG 9223372036854775807 0.. ms read-only known unlisted
    Give up starting after this long.
"""  # noqa: E501 - some of Kafka's defaults are long
