"""The metadata quorum and its log. The format of the rows is `ottla.config.table`'s."""

ROWS = """
controller.listener.names LIST - list+ - read-only acted-on
    The listeners of the quorum.
controller.performance.always.log.threshold.ms LONG 2000 0.. ms read-only known unlisted
    Kafka's log of slow controller events.
controller.performance.sample.period.ms LONG 60000 100.. ms read-only known unlisted
    Kafka's log of slow controller events.
controller.quorum.append.linger.ms INT 25 0.. ms read-only acted-on
    How long the leader gathers metadata records before it syncs them. Without the key it does not wait: what is
    appended during one sync shares the next.
controller.quorum.auto.join.enable BOOLEAN false - - read-only acted-on
    Whether a controller that is an observer joins the voters when it starts.
controller.quorum.bootstrap.servers LIST "" list - read-only acted-on
    Where to find the quorum, as host:port,...
controller.quorum.election.backoff.max.ms INT 1000 0.. ms read-only acted-on
    Longest backoff after a lost election.
controller.quorum.election.timeout.ms INT 1000 0.. ms read-only acted-on
    How long an election may take.
controller.quorum.fetch.max.bytes INT 1048576 1.. bytes read-only acted-on
    Most bytes in one fetch of the metadata log.
controller.quorum.fetch.snapshot.max.bytes INT 1048576 1.. bytes read-only acted-on
    Most bytes in one piece of a snapshot.
controller.quorum.fetch.timeout.ms INT 2000 0.. ms read-only acted-on
    Time without a successful fetch after which a voter becomes a candidate.
controller.quorum.request.timeout.ms INT 2000 0.. ms read-only acted-on
    How long a voter waits for another's response.
controller.quorum.retry.backoff.ms INT 20 0.. ms read-only acted-on
    Backoff before a quorum request is sent again.
controller.quorum.voters LIST "" list - read-only acted-on
    Voters by id, as id@host:port,..., of a quorum with static voters.
internal.metadata.delete.delay.millis LONG 60000 - ms read-only known unlisted
    How long deleted files of the metadata log stay.
internal.metadata.log.segment.bytes INT - - bytes read-only known unlisted
    For tests of Kafka: segments below the usual lower bound.
internal.metadata.max.batch.size.in.bytes INT 8388608 - bytes read-only known unlisted
    Largest batch of the metadata log.
metadata.log.dir STRING - - - read-only acted-on
    Where the metadata log lives; the first of log.dirs when not set.
metadata.log.max.record.bytes.between.snapshots LONG 20971520 1.. bytes read-only acted-on
    A snapshot is taken after this much of the metadata log.
metadata.log.max.snapshot.interval.ms LONG 3600000 0.. ms read-only acted-on
    Longest time between snapshots, if there are new records.
metadata.log.segment.bytes INT 1073741824 8388608.. bytes read-only acted-on
    Size at which a segment of the metadata log is rolled.
metadata.log.segment.ms LONG 604800000 - ms read-only acted-on
    Age at which a segment of the metadata log is rolled.
metadata.max.idle.interval.ms INT 500 0.. ms read-only acted-on
    The active controller writes a no-op after this much silence; 0 never.
metadata.max.retention.bytes LONG 104857600 - bytes read-only acted-on
    Old metadata log and snapshots are deleted above this.
metadata.max.retention.ms LONG 604800000 - ms read-only acted-on
    Old metadata log and snapshots are deleted at this age.
unstable.api.versions.enable BOOLEAN false - - read-only known unlisted
    Serve API versions that Kafka has not released.
unstable.feature.versions.enable BOOLEAN false - - read-only known unlisted
    Allow feature levels that Kafka has not released.
"""
