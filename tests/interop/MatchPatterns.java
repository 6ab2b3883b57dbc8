// Matches topic names with RE2J, as Kafka's group coordinator does: a line on stdin is {"pattern", "names"} as JSON, the line on
// stdout is {"names"} with those that match, or {"error"} with the description of the exception.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

public class MatchPatterns {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(JSON.writeValueAsString(result(question.get("pattern").asText(), question.get("names"))));
        }
    }

    private static Map<String, Object> result(String pattern, JsonNode names) {
        Pattern compiled;
        try {
            compiled = Pattern.compile(pattern);
        } catch (PatternSyntaxException exception) {
            return Map.of("error", exception.getDescription());
        }
        List<String> matching = new ArrayList<>();
        for (JsonNode name : names) {
            if (compiled.matcher(name.asText()).matches()) {
                matching.add(name.asText());
            }
        }
        return Map.of("names", matching);
    }
}
