// Reads names and rules (lines: a count, that many names, then rules); prints what each rule makes of each name.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class PrintMappedPrincipals {
    static String apply(String rules, String name) {
        SslPrincipalMapper mapper;
        try {
            mapper = SslPrincipalMapper.fromRules(rules);
        } catch (RuntimeException error) {
            return "<invalid>";
        }
        try {
            return mapper.getName(name);
        } catch (Exception error) {
            return "<none>";
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        List<String> names = new ArrayList<>();
        for (int left = Integer.parseInt(in.readLine()); left > 0; left--) {
            names.add(in.readLine());
        }
        for (String rules = in.readLine(); rules != null; rules = in.readLine()) {
            for (String name : names) {
                System.out.println(rules + "\t" + name + "\t" + apply(rules, name));
            }
        }
    }
}
