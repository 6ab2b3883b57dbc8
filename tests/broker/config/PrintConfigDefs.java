// Prints, tab separated, every key that Kafka defines and the result of validating some values. Control characters are escaped.
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;

public class PrintConfigDefs {
    static final List<String> VALUES = List.of(
        "", "0", "1", "-1", "-2", "-3", "2", "5", "10", "100", "1024", "1048576", "2147483647", "2147483648", "32768",
        "9223372036854775807", "9223372036854775808", "0.5", "1.5", "true", "FALSE", "yes", "a", "a,b", "a,,b", " 7 ",
        "compact", "delete,compact", "gzip", "producer", "CreateTime", "1:2", "*", "latest", "classic,consumer", "broker");

    static void dump(String kind, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            Object value = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : key.defaultValue;
            String shown = value == null ? "<none>" : ConfigDef.convertToString(value, key.type);
            print("key", kind, key.name, key.type.toString(), shown, String.valueOf(key.internalConfig));
            for (String text : VALUES) {
                print("value", kind, key.name, text, judge(key, text));
            }
        }
    }

    static String judge(ConfigDef.ConfigKey key, String text) {
        try {
            Object parsed = ConfigDef.parseType(key.name, text, key.type);
            if (key.validator != null) {
                key.validator.ensureValid(key.name, parsed);
            }
            return "ok";
        } catch (ConfigException error) {
            return error.getMessage();
        }
    }

    static void print(String... fields) {
        System.out.println(String.join("\t", Arrays.stream(fields).map(f -> f.replace("\t", "\\t")).toList()));
    }

    public static void main(String[] arguments) {
        dump("broker", kafka.server.KafkaConfig.configDef());
        dump("topic", org.apache.kafka.storage.internals.log.LogConfig.configDefCopy());
        dump("group", org.apache.kafka.coordinator.group.GroupConfig.CONFIG_DEF);
        dump("client-metrics", org.apache.kafka.server.metrics.ClientMetricsConfigs.configDef());
        for (Map.Entry<String, String> mode
                : org.apache.kafka.server.config.DynamicBrokerConfig.dynamicConfigUpdateModes().entrySet()) {
            print("dynamic", mode.getKey(), mode.getValue());
        }
        org.apache.kafka.server.config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, synonyms) ->
            synonyms.forEach(synonym -> print("synonym", name, synonym.name(), synonym.converter().apply("1"))));
    }
}
