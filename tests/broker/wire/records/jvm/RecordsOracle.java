// Writes and reads records with Kafka's own classes: one JSON request per line of standard input, one JSON answer each.
//
//   {"op": "write", "magic": 2, "codec": "gzip", ..., "records": [...]}  ->  {"data": base64}
//   {"op": "marker", "type": "COMMIT", ...}                              ->  {"data": base64}
//   {"op": "read", "data": base64}                                       ->  {"batches": [...]} or {"error": text}
//
// Run as: java -cp "$OTTLA_KAFKA_LIBS/*" RecordsOracle.java

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.Base64;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

public class RecordsOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode request = JSON.readTree(line);
            ObjectNode answer = JSON.createObjectNode();
            try {
                switch (request.get("op").asText()) {
                    case "write" -> answer.put("data", bytes(write(request)));
                    case "marker" -> answer.put("data", bytes(marker(request)));
                    default -> read(request.get("data").binaryValue(), answer);
                }
            } catch (RuntimeException error) {
                answer.removeAll();
                answer.put("error", error.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static ByteBuffer write(JsonNode request) throws Exception {
        ByteBufferOutputStream out = new ByteBufferOutputStream(1024);
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            out,
            (byte) request.get("magic").asInt(),
            Compression.of(CompressionType.forName(request.get("codec").asText())).build(),
            request.get("is_append_time").asBoolean() ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME,
            request.get("base_offset").asLong(),
            request.get("log_append_time_ms").asLong(),
            request.get("producer_id").asLong(),
            (short) request.get("producer_epoch").asInt(),
            request.get("base_sequence").asInt(),
            request.get("is_transactional").asBoolean(),
            false,
            request.get("leader_epoch").asInt(),
            Integer.MAX_VALUE);
        for (JsonNode record : request.get("records")) {
            JsonNode given = record.get("headers");
            Header[] headers = new Header[given.size()];
            for (int index = 0; index < headers.length; index++) {
                JsonNode header = given.get(index);
                headers[index] = new RecordHeader(header.get(0).asText(), nullable(header.get(1)));
            }
            builder.appendWithOffset(
                record.get("offset").asLong(),
                record.get("timestamp_ms").asLong(),
                nullable(record.get("key")),
                nullable(record.get("value")),
                headers);
        }
        return builder.build().buffer();
    }

    private static ByteBuffer marker(JsonNode request) {
        EndTransactionMarker marker = new EndTransactionMarker(
            ControlRecordType.valueOf(request.get("type").asText()), request.get("coordinator_epoch").asInt());
        return MemoryRecords.withEndTransactionMarker(
            request.get("base_offset").asLong(),
            request.get("timestamp_ms").asLong(),
            request.get("leader_epoch").asInt(),
            request.get("producer_id").asLong(),
            (short) request.get("producer_epoch").asInt(),
            marker).buffer();
    }

    private static void read(byte[] data, ObjectNode answer) {
        ArrayNode batches = answer.putArray("batches");
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            ObjectNode facts = batches.addObject();
            facts.put("magic", batch.magic());
            facts.put("base_offset", batch.baseOffset());
            facts.put("last_offset", batch.lastOffset());
            facts.put("next_offset", batch.nextOffset());
            facts.put("size_bytes", batch.sizeInBytes());
            facts.put("crc", batch.checksum());
            facts.put("leader_epoch", batch.partitionLeaderEpoch());
            facts.put("codec", batch.compressionType().name);
            facts.put("timestamp_type", batch.timestampType().name);
            facts.put("max_timestamp_ms", batch.maxTimestamp());
            facts.put("producer_id", batch.producerId());
            facts.put("producer_epoch", batch.producerEpoch());
            facts.put("base_sequence", batch.baseSequence());
            facts.put("last_sequence", batch.lastSequence());
            facts.put("is_transactional", batch.isTransactional());
            facts.put("is_control", batch.isControlBatch());
            facts.put("delete_horizon_ms", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
            ArrayNode records = facts.putArray("records");
            for (Record record : batch) {
                ObjectNode fields = records.addObject();
                fields.put("offset", record.offset());
                fields.put("timestamp_ms", record.timestamp());
                fields.put("key", bytes(record.key()));
                fields.put("value", bytes(record.value()));
                ArrayNode headers = fields.putArray("headers");
                for (Header header : record.headers()) {
                    headers.addArray().add(header.key()).add(header.value());
                }
            }
        }
    }

    private static byte[] nullable(JsonNode node) throws Exception {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy;
    }
}
