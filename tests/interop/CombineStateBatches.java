// Merges delivery states with Kafka's own class: a line on stdin is a start offset, then the batches that are stored and
// those that are written (FIRST-LAST:STATE:COUNT, separated by commas), all separated by blanks; `-` is none. The line on
// stdout has the merged batches.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;
import org.apache.kafka.coordinator.share.PersisterStateBatchCombiner;
import org.apache.kafka.server.share.persister.PersisterStateBatch;

public class CombineStateBatches {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            List<PersisterStateBatch> combined = new PersisterStateBatchCombiner(
                batches(words[1]), batches(words[2]), Long.parseLong(words[0])).combineStateBatches();
            String shown = combined.stream()
                .map(it -> it.firstOffset() + "-" + it.lastOffset() + ":" + it.deliveryState() + ":" + it.deliveryCount())
                .collect(Collectors.joining(","));
            System.out.println(shown.isEmpty() ? "-" : shown);
        }
    }

    private static List<PersisterStateBatch> batches(String text) {
        List<PersisterStateBatch> batches = new ArrayList<>();
        if (text.equals("-")) {
            return batches;
        }
        for (String batch : text.split(",")) {
            String[] fields = batch.split("[-:]");
            batches.add(new PersisterStateBatch(Long.parseLong(fields[0]), Long.parseLong(fields[1]),
                Byte.parseByte(fields[2]), Short.parseShort(fields[3])));
        }
        return batches;
    }
}
