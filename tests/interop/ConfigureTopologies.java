// Configures topologies of streams groups with Kafka's own classes: a line on stdin is a topology and the topics that exist
// as JSON (tests/broker/groups/doubles/topology_cases.py), the line on stdout is the configured topology, or the exception.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.CreateTopicsRequestData.CreatableTopic;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredInternalTopic;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.slf4j.Logger;
import org.slf4j.helpers.NOPLogger;

public class ConfigureTopologies {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Logger LOG = NOPLogger.NOP_LOGGER;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(configured(JSON.readTree(line))));
            System.out.flush();
        }
    }

    private static Map<String, Object> configured(JsonNode group) {
        byte[] value = HexFormat.of().parseHex(group.get("topology").asText());
        StreamsTopology topology = StreamsTopology.fromRecord(
            new StreamsGroupTopologyValue(new ByteBufferAccessor(ByteBuffer.wrap(value)), (short) 0));
        Map<String, Integer> counts = new HashMap<>();
        group.get("topics").fields().forEachRemaining(each -> counts.put(each.getKey(), each.getValue().asInt()));
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            ConfiguredTopology configured = InternalTopicManager.configureTopics(
                LOG, "group", "member", 7L, topology, new Topics(counts), Time.SYSTEM);
            configured.topicConfigurationException().ifPresent(problem ->
                result.put("problem", List.of(problem.status().code(), problem.getMessage())));
            configured.subtopologies().ifPresent(subtopologies -> {
                List<Object> described = new ArrayList<>();
                subtopologies.forEach((id, each) -> described.add(List.of(
                    id, each.numberOfTasks(), partitions(each.repartitionSourceTopics()),
                    partitions(each.stateChangelogTopics()))));
                result.put("subtopologies", described);
            });
            List<Object> missing = new ArrayList<>();
            configured.internalTopicsToBeCreated().values().forEach(each -> missing.add(creatable(each)));
            result.put("missing", missing);
        } catch (ApiException error) {
            result.put("error", List.of(Errors.forException(error).name(), error.getMessage()));
        }
        return result;
    }

    private static Map<String, Integer> partitions(Map<String, ConfiguredInternalTopic> topics) {
        Map<String, Integer> partitions = new TreeMap<>();
        topics.forEach((name, topic) -> partitions.put(name, topic.numberOfPartitions()));
        return partitions;
    }

    private static List<Object> creatable(CreatableTopic topic) {
        Map<String, String> configs = new TreeMap<>();
        topic.configs().forEach(config -> configs.put(config.name(), config.value()));
        return List.of(topic.name(), topic.numPartitions(), topic.replicationFactor(), configs);
    }

    private record Topic(String name, Uuid id, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    private record Topics(Map<String, Integer> counts) implements CoordinatorMetadataImage {
        @Override
        public Set<Uuid> topicIds() {
            return Set.of();
        }

        @Override
        public Set<String> topicNames() {
            return counts.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(counts.get(name)).map(count -> new Topic(name, Uuid.ONE_UUID, count));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.empty();
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            return CoordinatorMetadataDelta.EMPTY;
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return false;
        }
    }
}
