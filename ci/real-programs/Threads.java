// Java: many short threads beside long ones, memory outside Java's heap
// (deflate, direct buffers, class loading), and children that are started
// while the threads run. Prints one digest a part; nothing depends on time.
import java.io.*;
import java.lang.reflect.Proxy;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import java.util.zip.*;

public class Threads {
    static String hex(byte[] bytes) throws Exception {
        byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
        return HexFormat.of().formatHex(digest, 0, 8);
    }

    static byte[] pattern(int size, int seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        for (int n = 0; n < size; n += 3) bytes[n] = (byte) seed;
        return bytes;
    }

    // A deflater and an inflater keep their state in memory from malloc.
    static byte[] deflated(byte[] bytes) throws Exception {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        try (DeflaterOutputStream deflater = new DeflaterOutputStream(out)) { deflater.write(bytes); }
        InputStream back = new InflaterInputStream(new ByteArrayInputStream(out.toByteArray()));
        if (!Arrays.equals(back.readAllBytes(), bytes)) throw new Error("inflated to something else");
        return out.toByteArray();
    }

    static String buffers(int seed) throws Exception {
        ByteBuffer[] kept = new ByteBuffer[61];
        ByteArrayOutputStream told = new ByteArrayOutputStream();
        for (int n = 0; n < 600; n++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect((n * 7919 + seed * 31) % 90000 + 8);
            // Direct buffers are zero when they are new.
            for (int at = 0; at < buffer.capacity(); at++)
                if (buffer.get(at) != 0) throw new Error("dirty at " + at + " of " + buffer.capacity());
            for (int at = 0; at < buffer.capacity(); at += 64) buffer.put(at, (byte) (n + seed + at));
            kept[n % 61] = buffer;
            ByteBuffer old = kept[n * 5 % 61];
            if (old != null) told.write(old.get(old.capacity() / 64 * 64 % old.capacity()));
            if (n % 50 == 0) told.write(deflated(pattern(n * 97, n)));
        }
        return hex(told.toByteArray());
    }

    static String child(int n) throws Exception {
        Process cat = new ProcessBuilder("cat").redirectErrorStream(true).start();
        byte[] sent = pattern(20000, n);
        try (OutputStream out = cat.getOutputStream()) { out.write(sent); }
        byte[] back = cat.getInputStream().readAllBytes();
        return cat.waitFor() + " " + Arrays.equals(sent, back);
    }

    // A class loader of its own each time: classes come and go.
    static int classes(int times) throws Exception {
        URL here = Threads.class.getProtectionDomain().getCodeSource().getLocation();
        int sum = 0;
        for (int n = 0; n < times; n++) {
            try (URLClassLoader loader = new URLClassLoader(new URL[] {here}, null)) {
                IntUnaryOperator op = (IntUnaryOperator) loader.loadClass("Threads$Adder")
                        .getDeclaredConstructor().newInstance();
                Object proxy = Proxy.newProxyInstance(loader, new Class<?>[] {IntUnaryOperator.class},
                        (self, method, args) -> op.applyAsInt((Integer) args[0]));
                sum += ((IntUnaryOperator) proxy).applyAsInt(n);
            }
        }
        return sum;
    }

    public static class Adder implements IntUnaryOperator {
        public int applyAsInt(int n) { return n + 3; }
    }

    static <T> List<T> all(ExecutorService pool, int times, IntFunction<Callable<T>> make) throws Exception {
        List<Future<T>> futures = new ArrayList<>();
        for (int n = 0; n < times; n++) futures.add(pool.submit(make.apply(n)));
        List<T> results = new ArrayList<>();
        for (Future<T> future : futures) results.add(future.get());
        return results;
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Thread> brief = new ArrayList<>();
        Sum ends = new Sum();
        for (int n = 0; n < 400; n++) {
            int seed = n;
            Thread thread = new Thread(() -> {
                try { ends.add(deflated(pattern(4000 + seed, seed)).length); } catch (Exception e) { throw new Error(e); }
            });
            brief.add(thread);
            thread.start();
            if (n >= 20) brief.get(n - 20).join();
        }
        Future<List<String>> children = Executors.newSingleThreadExecutor(r -> {
            Thread thread = new Thread(r);
            thread.setDaemon(true);
            return thread;
        }).submit(() -> {
            List<String> told = new ArrayList<>();
            for (int n = 0; n < 40; n++) told.add(child(n));
            return told;
        });
        System.out.println("buffers " + all(pool, 16, seed -> () -> buffers(seed)));
        System.out.println("children " + children.get());
        System.out.println("classes " + classes(200));
        for (Thread thread : brief) thread.join();
        System.out.println("brief threads " + ends.sum);
        Path jar = Files.createTempFile(Path.of("."), "a", ".zip");
        try (ZipOutputStream zip = new ZipOutputStream(Files.newOutputStream(jar))) {
            for (int n = 0; n < 300; n++) {
                zip.putNextEntry(new ZipEntry("entry" + n));
                zip.write(pattern(n * 31, n));
            }
        }
        try (ZipFile zip = new ZipFile(jar.toFile())) {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            for (var entry : Collections.list(zip.entries())) out.write(zip.getInputStream(entry).readAllBytes());
            System.out.println("zip " + hex(out.toByteArray()));
        }
        pool.shutdown();
    }

    static class Sum {
        long sum;
        synchronized void add(long n) { sum += n; }
    }
}
