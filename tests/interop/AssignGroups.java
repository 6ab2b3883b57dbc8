// Assigns partitions with Kafka's own assignors: a line on stdin is a group as JSON (tests/broker/groups/doubles/assignor_cases.py),
// the line on stdout is the number of nanoseconds that the assignor took, and the result as JSON, or the exception.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class AssignGroups {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, PartitionAssignor> ASSIGNORS =
        Map.of("uniform", new UniformAssignor(), "range", new RangeAssignor(), "simple", new SimpleAssignor());

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(assigned(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String assigned(JsonNode group) throws Exception {
        List<Uuid> topics = new ArrayList<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        for (JsonNode topic : group.get("topics")) {
            topics.add(Uuid.fromString(topic.get(0).asText()));
            counts.put(topics.get(topics.size() - 1), topic.get(1).asInt());
        }
        // As TargetAssignmentBuilder does.
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            String id = member.get(0).asText();
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            member.get(3).fields().forEachRemaining(entry -> {
                Uuid topic = topics.get(Integer.parseInt(entry.getKey()));
                List<Integer> partitions = new ArrayList<>();
                entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
                assigned.put(topic, new HashSet<>(partitions));
                partitions.forEach(partition -> owners.computeIfAbsent(topic, each -> new HashMap<>()).put(partition, id));
            });
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                member.get(1).isNull() ? Optional.empty() : Optional.of(member.get(1).asText()),
                subscribed(member.get(2), topics),
                new Assignment(assigned)));
        }
        GroupSpec spec = new GroupSpecImpl(
            Collections.unmodifiableMap(members), SubscriptionType.valueOf(group.get("type").asText()), owners,
            Optional.ofNullable(group.get("assignable")).map(each -> assignable(each, topics)));
        PartitionAssignor assignor = ASSIGNORS.get(group.get("assignor").asText());
        long started = System.nanoTime();
        Map<String, MemberAssignment> target;
        try {
            target = assignor.assign(spec, new Topics(counts)).members();
        } catch (NoSuchElementException error) {
            // SimpleAssignor of 4.3.1 fails when the last member that has too few partitions is filled in mid-round.
            return "0 null";
        }
        long elapsed = System.nanoTime() - started;
        return elapsed + " " + JSON.writeValueAsString(result(group, topics, target));
    }

    private static Map<Uuid, Set<Integer>> assignable(JsonNode partitions, List<Uuid> topics) {
        Map<Uuid, Set<Integer>> assignable = new HashMap<>();
        partitions.fields().forEachRemaining(entry -> {
            Set<Integer> numbers = new HashSet<>();
            entry.getValue().forEach(number -> numbers.add(number.asInt()));
            assignable.put(topics.get(Integer.parseInt(entry.getKey())), numbers);
        });
        return assignable;
    }

    private static Set<Uuid> subscribed(JsonNode indices, List<Uuid> topics) {
        // The order among topics in the same bucket of a hash table is the order of this set.
        Set<String> bytes = new TreeSet<>();
        Map<String, Uuid> byBytes = new HashMap<>();
        for (JsonNode index : indices) {
            Uuid topic = topics.get(index.asInt());
            String key = String.format("%016x%016x", topic.getMostSignificantBits(), topic.getLeastSignificantBits());
            bytes.add(key);
            byBytes.put(key, topic);
        }
        Set<Uuid> subscribed = new LinkedHashSet<>();
        bytes.forEach(key -> subscribed.add(byBytes.get(key)));
        return subscribed;
    }

    private static List<Map<Integer, TreeSet<Integer>>> result(
        JsonNode group, List<Uuid> topics, Map<String, MemberAssignment> target
    ) {
        List<Map<Integer, TreeSet<Integer>>> result = new ArrayList<>();
        for (JsonNode member : group.get("members")) {
            MemberAssignment assignment = target.get(member.get(0).asText());
            Map<Integer, TreeSet<Integer>> partitions = new TreeMap<>();
            if (assignment != null) {
                assignment.partitions().forEach(
                    (topic, each) -> partitions.put(topics.indexOf(topic), new TreeSet<>(each)));
            }
            result.add(partitions);
        }
        return result;
    }

    private record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }
}
