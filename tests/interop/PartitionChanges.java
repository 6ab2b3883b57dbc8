// Makes partition changes with Kafka's own PartitionChangeBuilder: a line on stdin is a partition and what is to become of it, as
// `name=value` joined by `;`; the line on stdout is the partition afterwards. Node ids are joined by `,`.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.server.common.MetadataVersion;

public class PartitionChanges {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, String> fields = new HashMap<>();
            for (String field : line.split(";")) {
                String[] parts = field.split("=", 2);
                fields.put(parts[0], parts[1]);
            }
            System.out.println(shown(changed(fields)));
        }
    }

    private static PartitionRegistration changed(Map<String, String> fields) {
        int[] replicas = ids(fields.get("replicas"));
        PartitionRegistration before = new PartitionRegistration.Builder()
            .setReplicas(replicas)
            .setDirectories(Arrays.stream(replicas).mapToObj(PartitionChanges::directory).toArray(Uuid[]::new))
            .setIsr(ids(fields.get("isr")))
            .setRemovingReplicas(ids(fields.get("removing")))
            .setAddingReplicas(ids(fields.get("adding")))
            .setElr(ids(fields.get("elr")))
            .setLastKnownElr(ids(fields.get("last")))
            .setLeader(Integer.parseInt(fields.get("leader")))
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields.get("recovery"))))
            .setLeaderEpoch(0)
            .setPartitionEpoch(0)
            .build();
        Set<Integer> mayLead = new HashSet<>(list(fields.get("may_lead")));
        PartitionChangeBuilder change = new PartitionChangeBuilder(
            before,
            new Uuid(1, 1),
            0,
            mayLead::contains,
            MetadataVersion.fromFeatureLevel(Short.parseShort(fields.get("metadata_version"))),
            Integer.parseInt(fields.get("min_isr")),
            fields.get("elr_enabled").equals("1"));
        change.setElection(PartitionChangeBuilder.Election.valueOf(fields.get("election")));
        change.setDefaultDirProvider(PartitionChanges::directory);
        if (fields.containsKey("to_isr")) {
            change.setTargetIsr(list(fields.get("to_isr")));
        }
        if (fields.containsKey("to_replicas")) {
            change.setTargetReplicas(list(fields.get("to_replicas")));
            change.setTargetRemoving(list(fields.get("to_removing")));
            change.setTargetAdding(list(fields.get("to_adding")));
        }
        if (fields.containsKey("lost_data")) {
            change.setUncleanShutdownReplicas(list(fields.get("lost_data")));
        }
        if (fields.containsKey("to_recovery")) {
            change.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields.get("to_recovery"))));
        }
        return change.build().map(made -> before.merge((PartitionChangeRecord) made.message())).orElse(before);
    }

    private static String shown(PartitionRegistration partition) {
        return "replicas=" + joined(partition.replicas)
            + ";isr=" + joined(partition.isr)
            + ";removing=" + joined(partition.removingReplicas)
            + ";adding=" + joined(partition.addingReplicas)
            + ";elr=" + joined(partition.elr)
            + ";last=" + joined(partition.lastKnownElr)
            + ";leader=" + partition.leader
            + ";recovery=" + partition.leaderRecoveryState.value()
            + ";leader_epoch=" + partition.leaderEpoch
            + ";partition_epoch=" + partition.partitionEpoch
            + ";directories=" + Arrays.stream(partition.directories)
                .map(each -> Long.toString(each.getLeastSignificantBits()))
                .collect(Collectors.joining(","));
    }

    private static Uuid directory(int nodeId) {
        return new Uuid(7, 1000 + nodeId);
    }

    private static int[] ids(String text) {
        return text.isEmpty() ? new int[0] : Arrays.stream(text.split(",")).mapToInt(Integer::parseInt).toArray();
    }

    private static List<Integer> list(String text) {
        return Arrays.stream(ids(text)).boxed().collect(Collectors.toList());
    }

    private static String joined(int[] ids) {
        return Arrays.stream(ids).mapToObj(Integer::toString).collect(Collectors.joining(","));
    }
}
