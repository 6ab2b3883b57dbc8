// Loads the newest .snapshot of a directory as a broker does, prints what it knows then, and writes a snapshot of that.
//
// Arguments: the directory, the log's end offset, the time in milliseconds, the offset of the new snapshot.
import java.io.File;
import java.util.TreeMap;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

public class KafkaProducerState {
    public static void main(String[] args) throws Exception {
        var state = new ProducerStateManager(
            new TopicPartition("t", 0), new File(args[0]), 900_000, new ProducerStateManagerConfig(86_400_000, true), Time.SYSTEM);
        state.truncateAndReload(0, Long.parseLong(args[1]), Long.parseLong(args[2]));
        for (var entry : new TreeMap<>(state.activeProducers()).values()) {
            System.out.printf("%d/%d coordinator %d transaction %d time %d:", entry.producerId(), entry.producerEpoch(),
                entry.coordinatorEpoch(), entry.currentTxnFirstOffset().orElse(-1), entry.lastTimestamp());
            for (var batch : entry.batchMetadata()) {
                System.out.printf(" %d-%d@%d", batch.firstSeq(), batch.lastSeq(), batch.lastOffset());
            }
            System.out.println();
        }
        System.out.println("undecided from " + state.firstUndecidedOffset().orElse(-1));
        state.updateMapEndOffset(Long.parseLong(args[3]));
        state.takeSnapshot();
    }
}
