// Reads and writes messages with Kafka's generated classes: one JSON request per line, one JSON answer each.
//
//   {"name": "FetchRequest", "version": 17, "data": [base64, ...]}
//     -> {"default": base64 of a new message or null, "again": [base64 | {"error": text}, ...]}
//
// Each of "data" is decoded and encoded again. Run as: java -cp "$OTTLA_KAFKA_LIBS/*" MessagesOracle.java

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.List;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class MessagesOracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> PACKAGES = List.of(
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.coordinator.transaction.generated.");

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            Class<?> type = find(request.get("name").asText());
            short version = request.get("version").shortValue();
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.put("default", encode(make(type), version));
            } catch (RuntimeException error) {
                answer.putNull("default");
            }
            ArrayNode again = answer.putArray("again");
            for (JsonNode data : request.get("data")) {
                try {
                    again.add(encode(decode(make(type), version, data.binaryValue()), version));
                } catch (RuntimeException error) {
                    again.addObject().put("error", error.toString());
                }
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static Class<?> find(String name) {
        for (String start : PACKAGES) {
            for (String end : List.of("Data", "")) {
                try {
                    return Class.forName(start + name + end);
                } catch (ClassNotFoundException error) {
                    continue;
                }
            }
        }
        throw new IllegalArgumentException("no class of " + name);
    }

    private static Message make(Class<?> type) throws Exception {
        return (Message) type.getDeclaredConstructor().newInstance();
    }

    private static Message decode(Message message, short version, byte[] data) {
        ByteBuffer buffer = ByteBuffer.wrap(data);
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left over");
        }
        return message;
    }

    private static byte[] encode(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes fewer than size() said");
        }
        return buffer.array();
    }
}
