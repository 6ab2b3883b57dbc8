// Runs Kafka's ClientMetricsManager on a script from stdin, one command in a line, and prints one line for each, after "> ":
//   subscribe NAME KEY=VALUE;KEY=VALUE        set a subscription; without values, remove it
//   get TIME-MS INSTANCE CLIENT-ID            error, subscription id, interval, metrics
//   push TIME-MS INSTANCE CLIENT-ID SUBSCRIPTION-ID COMPRESSION TERMINATING SIZE     error
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.ByteBuffer;
import java.util.Optional;
import java.util.Properties;
import java.util.function.Supplier;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.GetTelemetrySubscriptionsRequestData;
import org.apache.kafka.common.message.PushTelemetryRequestData;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.network.ClientInformation;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.GetTelemetrySubscriptionsRequest;
import org.apache.kafka.common.requests.PushTelemetryRequest;
import org.apache.kafka.common.requests.RequestContext;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.ClientMetricsManager;
import org.apache.kafka.server.metrics.ClientTelemetryExporterPlugin;

public class RunClientMetricsManager {
    static long now = 10_000_000L;

    static final Time TIME = new Time() {
        public long milliseconds() {
            return now;
        }

        public long nanoseconds() {
            return now * 1_000_000L;
        }

        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    };

    static RequestContext context(String clientId) throws Exception {
        return new RequestContext(
            new RequestHeader(ApiKeys.PUSH_TELEMETRY, (short) 0, clientId, 1), "1", InetAddress.getByName("127.0.0.1"),
            Optional.of(40000), KafkaPrincipal.ANONYMOUS, ListenerName.normalised("PLAINTEXT"),
            SecurityProtocol.PLAINTEXT, new ClientInformation("unknown", "unknown"), false, Optional.empty());
    }

    public static void main(String[] arguments) throws Exception {
        ClientMetricsManager manager = new ClientMetricsManager(new ClientTelemetryExporterPlugin(), 100, TIME, new Metrics());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("subscribe")) {
                Properties values = new Properties();
                for (String value : words.length < 3 ? new String[0] : words[2].split(";")) {
                    int equals = value.indexOf('=');
                    values.put(value.substring(0, equals), value.substring(equals + 1));
                }
                manager.updateSubscription(words[1], values);
                System.out.println("> ok");
                continue;
            }
            now = 10_000_000L + Long.parseLong(words[1]);
            Uuid instance = Uuid.fromString(words[2]);
            if (words[0].equals("get")) {
                var request = new GetTelemetrySubscriptionsRequest.Builder(
                    new GetTelemetrySubscriptionsRequestData().setClientInstanceId(instance), true).build((short) 0);
                var response = manager.processGetTelemetrySubscriptionRequest(request, context(words[3])).data();
                System.out.println("> " + Errors.forCode(response.errorCode()) + " " + response.subscriptionId() + " "
                    + response.pushIntervalMs() + " " + String.join(",", response.requestedMetrics()));
            } else {
                var request = new PushTelemetryRequest.Builder(new PushTelemetryRequestData()
                    .setClientInstanceId(instance)
                    .setSubscriptionId(Integer.parseInt(words[4]))
                    .setCompressionType(Byte.parseByte(words[5]))
                    .setTerminating(Boolean.parseBoolean(words[6]))
                    .setMetrics(ByteBuffer.allocate(Integer.parseInt(words[7]))), true).build((short) 0);
                var response = manager.processPushTelemetryRequest(request, context(words[3])).data();
                System.out.println("> " + Errors.forCode(response.errorCode()));
            }
        }
        System.exit(0);
    }
}
