// Assigns the tasks of streams groups with Kafka's own assignor: a line on stdin is a group as JSON
// (tests/broker/groups/doubles/task_cases.py), the line on stdout is the number of nanoseconds and the result as JSON.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentMemberSpec;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.assignor.TopologyDescriber;

public class AssignTasks {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(assigned(JSON.readTree(line)));
            System.out.flush();
        }
    }

    private static String assigned(JsonNode group) throws Exception {
        TreeMap<String, JsonNode> subtopologies = new TreeMap<>();
        group.get("subtopologies").forEach(each -> subtopologies.put(each.get(0).asText(), each));
        // As TargetAssignmentBuilder does.
        Map<String, AssignmentMemberSpec> members = new HashMap<>();
        for (JsonNode member : group.get("members")) {
            members.put(member.get(0).asText(), new AssignmentMemberSpec(
                Optional.empty(), Optional.empty(), tasks(member.get(2)), tasks(member.get(3)), Map.of(),
                member.get(1).asText(), Map.of(), Map.of(), Map.of()));
        }
        GroupSpecImpl spec = new GroupSpecImpl(
            Collections.unmodifiableMap(members), Map.of("num.standby.replicas", group.get("replicas").asText()));
        long started = System.nanoTime();
        Map<String, MemberAssignment> target =
            new StickyTaskAssignor().assign(spec, new Topology(subtopologies)).members();
        long elapsed = System.nanoTime() - started;
        List<Object> result = new ArrayList<>();
        for (JsonNode member : group.get("members")) {
            MemberAssignment each = target.get(member.get(0).asText());
            result.add(List.of(sorted(each.activeTasks()), sorted(each.standbyTasks())));
        }
        return elapsed + " " + JSON.writeValueAsString(result);
    }

    private static Map<String, Set<Integer>> tasks(JsonNode bySubtopology) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        bySubtopology.fields().forEachRemaining(entry -> {
            Set<Integer> partitions = new HashSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            tasks.put(entry.getKey(), partitions);
        });
        return tasks;
    }

    private static Map<String, TreeSet<Integer>> sorted(Map<String, Set<Integer>> tasks) {
        Map<String, TreeSet<Integer>> sorted = new TreeMap<>();
        tasks.forEach((subtopology, partitions) -> sorted.put(subtopology, new TreeSet<>(partitions)));
        return sorted;
    }

    private record Topology(TreeMap<String, JsonNode> byId) implements TopologyDescriber {
        @Override
        public List<String> subtopologies() {
            return byId.keySet().stream().toList();
        }

        @Override
        public int maxNumInputPartitions(String subtopology) {
            return byId.get(subtopology).get(1).asInt();
        }

        @Override
        public boolean isStateful(String subtopology) {
            return byId.get(subtopology).get(2).asBoolean();
        }
    }
}
