// Cleans the log of a directory named topic-partition once with Kafka's own cleaner; prints the next first dirty offset.
//
// Arguments: the directory, the first dirty and the first uncleanable offset, the time in milliseconds, segment.bytes,
// delete.retention.ms, bytes of the map of offsets.
import java.io.File;
import java.util.HashMap;
import java.util.Optional;

import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

public class KafkaCleaner {
    public static void main(String[] args) throws Exception {
        var properties = new HashMap<String, String>();
        properties.put("cleanup.policy", "compact");
        properties.put("internal.segment.bytes", args[4]);
        properties.put("delete.retention.ms", args[5]);
        properties.put("index.interval.bytes", "100");
        properties.put("file.delete.delay.ms", "0");
        var scheduler = new KafkaScheduler(1);
        scheduler.startup();
        var log = UnifiedLog.create(
            new File(args[0]), new LogConfig(properties), 0, 0, scheduler, new BrokerTopicStats(), Time.SYSTEM, 900_000,
            new ProducerStateManagerConfig(Integer.MAX_VALUE, false), 600_000, new LogDirFailureChannel(1), true,
            Optional.empty());
        log.updateHighWatermark(log.logEndOffset());
        var cleaner = new Cleaner(
            0, new SkimpyOffsetMap(Integer.parseInt(args[6])), 1 << 16, 1 << 20, 0.9,
            new Throttler(Double.MAX_VALUE, 300, "cleaner-io", "bytes", Time.SYSTEM), Time.SYSTEM, partition -> { });
        var result = cleaner.doClean(
            new LogToClean(log, Long.parseLong(args[1]), Long.parseLong(args[2]), false), Long.parseLong(args[3]));
        log.close();
        scheduler.shutdown();
        System.out.println(result.getKey());
    }
}
