"""Connections, requests and threads. The format of the rows is `ottla.config.table`'s."""

ROWS = """
advertised.listeners LIST - list+ - read-only acted-on
    Addresses that brokers advertise to clients; listeners when not set.
background.threads INT 10 1.. - cluster-wide known
    Kafka's threads for background work.
connection.failed.authentication.delay.ms INT 100 0.. ms read-only acted-on
    Delay of the response to a failed authentication, to slow down guessing.
connections.max.idle.ms LONG 600000 - ms read-only acted-on
    A connection that is silent for this long is closed; below 0 never.
connections.max.reauth.ms LONG 0 - ms read-only acted-on
    How long a SASL session lasts before the client must reauthenticate; 0 for no limit.
early.start.listeners LIST - list - read-only known
    Listeners that open before authorization data is loaded.
listener.security.protocol.map STRING SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - - per-broker acted-on
    Which security protocol each listener name speaks.
listeners LIST PLAINTEXT://:9092 list+ - per-broker acted-on
    The listeners that this node opens, as NAME://host:port.
max.connection.creation.rate INT 2147483647 0.. 1/s cluster-wide acted-on
    New connections per second that this broker accepts.
max.connections INT 2147483647 0.. - cluster-wide acted-on
    Open connections of this broker; listeners that only nodes use accept more. Lowered to the limit of file descriptors less those for files.
max.connections.per.ip INT 2147483647 0.. - cluster-wide acted-on
    Connections from one address.
max.connections.per.ip.overrides STRING "" - - cluster-wide acted-on
    Other limits for some addresses, as host:count,...
num.io.threads INT 8 1.. - cluster-wide known
    Kafka's request threads. One Ottla node serves requests on one thread; run more nodes instead.
num.network.threads INT 3 1.. - cluster-wide known
    Kafka's socket threads. One Ottla node has one event loop.
queued.max.request.bytes LONG -1 - bytes read-only acted-on
    Bytes of requests that are being received, over all connections; without capacity for a request its connection is not read. -1 (Kafka: no bound) stands for 256 MiB, or twice socket.request.max.bytes where that is more, and a quarter of the limit of memory of the control group at most.
queued.max.requests INT 500 1.. - read-only known
    Kafka's queue between its socket threads and its request threads. An Ottla node processes a request when its last byte has arrived: there is no such queue. Memory of requests that are being received is bounded by queued.max.request.bytes.
request.timeout.ms INT 30000 - ms read-only acted-on
    How long this node waits for another node's response.
socket.connection.setup.timeout.max.ms LONG 30000 - ms read-only known
    Longest wait for a connection to another node, after back-off.
socket.connection.setup.timeout.ms LONG 10000 - ms read-only acted-on
    How long this node waits for a connection to another to come up.
socket.listen.backlog.size INT 50 1.. - read-only acted-on
    Connections that the operating system queues before they are accepted.
socket.receive.buffer.bytes INT 102400 - bytes read-only acted-on
    Receive buffer of a client's socket; -1 leaves it to the operating system.
socket.request.max.bytes INT 104857600 1.. bytes read-only acted-on
    Largest request; a larger one closes its connection.
socket.send.buffer.bytes INT 102400 - bytes read-only acted-on
    Send buffer of a client's socket; -1 leaves it to the operating system.
"""  # noqa: E501 - some of Kafka's defaults are long
