// Runs Kafka's command-line tools one after the other in one JVM, because starting a JVM per command costs more than the commands.
//
// Protocol, big-endian, on this process's own stdin and stdout: a request is int32 count, then `count` arguments (the first is
// the main class), then the tool's stdin; each of these is int32 length + bytes. An answer is int32 exit code, then stdout, then
// stderr, each int32 length + bytes.
//
// The tools keep state in static fields (kafka-console-consumer counts its messages there), so each run loads the tools' jar anew;
// the client library below it is loaded once.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import org.apache.kafka.common.utils.Exit;

public class ToolHost {
    /** Thrown where a tool ends itself: unwinds it, and this JVM lives on. */
    static class ToolExit extends Error {
        ToolExit() {
            super("the tool has ended itself", null, false, false);
        }
    }

    /** What one tool has said, up to its first exit: some tools catch even the Error that unwinds them, and talk on. */
    static class Run {
        final ByteArrayOutputStream out = new ByteArrayOutputStream();
        final ByteArrayOutputStream err = new ByteArrayOutputStream();
        byte[] outAtExit;
        byte[] errAtExit;
        int code;

        synchronized void exit(int status) {
            if (outAtExit == null) {
                System.out.flush();
                System.err.flush();
                code = status;
                outAtExit = out.toByteArray();
                errAtExit = err.toByteArray();
            }
        }
    }

    static volatile Run current;

    /** Looks into the tools' jar first, so that each run has its own static fields. */
    static class ToolLoader extends URLClassLoader {
        ToolLoader(URL jar, ClassLoader parent) {
            super(new URL[] {jar}, parent);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                if (found == null && name.startsWith("org.apache.kafka.tools.")) {
                    try {
                        found = findClass(name);
                    } catch (ClassNotFoundException absentHere) {
                        found = null;
                    }
                }
                return found != null ? found : super.loadClass(name, resolve);
            }
        }
    }

    public static void main(String[] args) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        URL toolsJar = Path.of(args[0]).toUri().toURL();
        Exit.Procedure end = (code, message) -> {
            current.exit(code);
            throw new ToolExit();
        };
        Exit.setExitProcedure(end);
        Exit.setHaltProcedure(end);
        Exit.setShutdownHookAdder((name, hook) -> { });
        while (true) {
            String[] command;
            byte[] input;
            try {
                command = new String[requests.readInt()];
                for (int i = 0; i < command.length; i++) {
                    command[i] = new String(block(requests), StandardCharsets.UTF_8);
                }
                input = block(requests);
            } catch (EOFException done) {
                return;
            }
            answer(answers, toolsJar, command, input);
        }
    }

    static byte[] block(DataInputStream from) throws IOException {
        byte[] bytes = new byte[from.readInt()];
        from.readFully(bytes);
        return bytes;
    }

    static void answer(DataOutputStream answers, URL toolsJar, String[] command, byte[] input) throws IOException {
        InputStream realIn = System.in;
        PrintStream realOut = System.out;
        PrintStream realErr = System.err;
        Run run = new Run();
        current = run;
        System.setIn(new ByteArrayInputStream(input));
        System.setOut(new PrintStream(run.out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(run.err, true, StandardCharsets.UTF_8));
        try (ToolLoader loader = new ToolLoader(toolsJar, ToolHost.class.getClassLoader())) {
            run.exit(run(loader, command));
        } finally {
            System.setIn(realIn);
            System.setOut(realOut);
            System.setErr(realErr);
        }
        answers.writeInt(run.code);
        for (byte[] said : new byte[][] {run.outAtExit, run.errAtExit}) {
            answers.writeInt(said.length);
            answers.write(said);
        }
        answers.flush();
    }

    /** Returns the status of a tool that comes back from main, or fails in it, without having called exit. */
    static int run(ToolLoader loader, String[] command) {
        Thread.currentThread().setContextClassLoader(loader);
        try {
            String[] arguments = Arrays.copyOfRange(command, 1, command.length);
            Class.forName(command[0], true, loader).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (ReflectiveOperationException failed) {
            Throwable cause = failed.getCause() != null ? failed.getCause() : failed;
            if (!(cause instanceof ToolExit)) {
                cause.printStackTrace();
            }
            return 1;
        } finally {
            Thread.currentThread().setContextClassLoader(ToolHost.class.getClassLoader());
        }
    }
}
