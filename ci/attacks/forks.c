/*
 * fork while other threads are inside of the C library and allocate there, with its
 * locks held:
 *
 *   forks KIND [forks=40] [forkers=1]
 *
 * KIND is a row of the table below, or `all`: each thread goes through the rows.
 * Each child allocates, frees, trims and ends; some fork again.
 */
#include "attack.h"
#include <dirent.h>
#include <dlfcn.h>
#include <fnmatch.h>
#include <glob.h>
#include <grp.h>
#include <iconv.h>
#include <libintl.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <pwd.h>
#include <regex.h>
#include <signal.h>
#include <spawn.h>
#include <syslog.h>
#include <time.h>
#include <wchar.h>

enum { THREADS = 3, MOST_FORKERS = 4 };

extern char **environ;

static int over;
static long nr_rounds[THREADS];
static __thread uint64_t seed;

/* Takes slow paths only: a lock that is held meanwhile is held long. */
static void slow_paths(void)
{
    int n;

    for (n = 0; n < 6; n++) {
        size_t size = n % 2 ? 100 * 1024 : 250 * 1024;
        char *p = opaque(malloc(size));

        CHECK(p, "no memory for %zu bytes", size);
        p[0] = p[size - 1] = (char)n;
        free(p);
    }
}

/* --- Streams */

static ssize_t write_and_allocate(void *cookie, const char *text, size_t size)
{
    (void)cookie;
    (void)text;
    slow_paths();
    return (ssize_t)size;
}

static void flush_all(void)
{
    static __thread FILE *stream;

    if (!stream)
        stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = write_and_allocate });
    fputs("text", stream);
    fflush(NULL);
}

static void streams(void)
{
    char *text = NULL, *line = NULL, *word = NULL, source[] = "word and more\n";
    size_t size = 0, room = 0;
    FILE *file = open_memstream(&text, &size);
    int n;

    for (n = 0; file && n < 3000; n++)
        fprintf(file, "%d %s\n", n, "of a stream in memory");
    if (file)
        fclose(file);
    free(text);
    file = fmemopen(source, sizeof source - 1, "r");
    if (file && fscanf(file, "%ms", &word) == 1 && getline(&line, &room, file) > 0)
        CHECK(strcmp(word, "word") == 0, "scanned %s", word);
    if (file)
        fclose(file);
    free(word);
    free(line);
    file = fopen("/dev/null", "w,ccs=UTF-8");
    if (file) {
        fputws(L"wide", file);
        fclose(file);
    }
    if (asprintf(&text, "%*d", 70000, 1) > 0)
        free(text);
}

/* --- Names: each holds the lock of its data base while it allocates */

static void users(void)
{
    setpwent();
    while (getpwent())
        ;
    endpwent();
    CHECK(getpwuid(getuid()) || errno, "%s", "no user");
    (void)getpwnam("root");
    (void)getgrnam("root");
}

static void hosts(void)
{
    struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *found = NULL;

    if (getaddrinfo("127.0.0.1", "80", &hints, &found) == 0)
        freeaddrinfo(found);
    sethostent(0);
    while (gethostent())
        ;
    endhostent();
    (void)getservbyname("http", "tcp");
    (void)getprotobyname("tcp");
}

/* --- Languages */

static void locales(void)
{
    locale_t locale = newlocale(LC_ALL_MASK, seed++ % 2 ? "C.UTF-8" : "POSIX", NULL);

    if (locale) {
        locale_t copy = duplocale(locale);

        uselocale(copy);
        uselocale(LC_GLOBAL_LOCALE);
        if (copy)
            freelocale(copy);
        freelocale(locale);
    }
    setlocale(LC_ALL, seed % 2 ? "C.UTF-8" : "C");
}

static void conversions(void)
{
    static const char *const sets[] = { "UTF-16", "ISO-8859-15", "UTF-7", "EUC-JP", "KOI8-R" };
    iconv_t conversion = iconv_open("UTF-8", sets[seed++ % 5]);

    if (conversion != (iconv_t)-1)
        iconv_close(conversion);
}

static void texts(void)
{
    char domain[20];

    snprintf(domain, sizeof domain, "domain%d", (int)(seed++ % 50));
    bindtextdomain(domain, "/nonexistent");
    textdomain(domain);
    (void)dgettext(domain, "a message");
}

static void zones(void)
{
    static const char *const zones[] = { "UTC0", "Europe/Berlin", "America/New_York", "EST5EDT" };
    struct tm tm;
    time_t now = (time_t)seed;

    setenv("TZ", zones[seed++ % 4], 1);
    tzset();
    localtime_r(&now, &tm);
    mktime(&tm);
}

/* --- The loader */

static int see(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info;
    (void)size;
    (void)argument;
    slow_paths();
    return 1;
}

static void loader(void)
{
    static const char *const names[] = { "libresolv.so.2", "libnsl.so.1", "libutil.so.1", "libanl.so.1" };
    void *library = dlopen(names[seed++ % 4], RTLD_NOW);
    Dl_info info;

    dladdr((void *)(uintptr_t)&see, &info);
    (void)dlsym(RTLD_DEFAULT, "no_such_function_at_all");
    (void)dlerror();
    if (library)
        dlclose(library);
}

static void phdrs(void) { dl_iterate_phdr(see, NULL); }

/* --- The process */

static void nothing(void) { }

/* They stay, so there is a limit. */
static void at_exit(void)
{
    static int nr;
    int n;

    slow_paths();
    for (n = 0; n < 40 && __atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED) < 8000; n++)
        atexit(nothing);
}

static void at_fork(void)
{
    static int nr;
    int n;

    slow_paths();
    for (n = 0; n < 40 && __atomic_add_fetch(&nr, 1, __ATOMIC_RELAXED) < 4000; n++)
        pthread_atfork(NULL, NULL, NULL);
}

static void environment(void)
{
    char name[30], *value = malloc(100000);
    int n;

    if (!value)
        return;
    memset(value, 'x', 99999);
    value[99999] = 0;
    for (n = 0; n < 20; n++) {
        snprintf(name, sizeof name, "NAME_%d", (int)(seed++ % 200));
        setenv(name, value + 99999 - seed % 50000, 1);
        unsetenv(name);
    }
    free(value);
}

static void messages(void)
{
    /* Not to fill a log where there is one. */
    if (access("/dev/log", F_OK) == 0)
        return slow_paths();
    openlog("forks", 0, LOG_USER);
    syslog(LOG_DEBUG, "%*d", 2000, 1);
    closelog();
}

/* --- Threads and timers */

static void *keys(void *argument)
{
    pthread_key_t key[40];
    int n, nr;

    for (nr = 0; nr < 40 && pthread_key_create(&key[nr], free) == 0; nr++)
        pthread_setspecific(key[nr], malloc(1000));
    for (n = 0; n < nr; n++) {
        free(pthread_getspecific(key[n]));
        pthread_key_delete(key[n]);
    }
    slow_paths();
    return argument;
}

static void threads(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, keys, NULL) == 0)
        pthread_join(thread, NULL);
}

static void expired(union sigval value) { (void)value; }

static void timers(void)
{
    struct sigevent event = { .sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired };
    timer_t timer;

    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0)
        timer_delete(timer);
    slow_paths();
}

/* --- Processes and files */

static void processes(void)
{
    char *const words[] = { "true", NULL };
    FILE *pipe;
    pid_t pid;
    int status;

    if (posix_spawn(&pid, "/bin/true", NULL, NULL, words, environ) == 0)
        expect_good_end(pid, "posix_spawn");
    pipe = popen("exit 0", "r");
    status = pipe ? pclose(pipe) : -1;
    CHECK(status == 0, "popen: %s, status %d, error %d", pipe ? "made" : "not made", status, errno);
    CHECK(system("exit 0") == 0, "%s", "system");
}

static void files(void)
{
    regex_t pattern;
    struct dirent **entries;
    glob_t found;
    int nr = scandir("/etc", &entries, NULL, alphasort);

    while (nr > 0)
        free(entries[--nr]);
    if (nr == 0)
        free(entries);
    if (glob("/etc/*", 0, NULL, &found) == 0)
        globfree(&found);
    if (regcomp(&pattern, "(a|b)*c[d-z]+", REG_EXTENDED) == 0)
        regfree(&pattern);
    free(realpath("/etc/..", NULL));
}

static const struct {
    const char *name;
    void (*call)(void);
} kinds[] = {
    { "flush", flush_all },
    { "streams", streams },
    { "users", users },
    { "hosts", hosts },
    { "locales", locales },
    { "conversions", conversions },
    { "texts", texts },
    { "zones", zones },
    { "loader", loader },
    { "phdrs", phdrs },
    { "at-exit", at_exit },
    { "messages", messages },
    { "threads", threads },
    { "timers", timers },
    { "processes", processes },
    { "files", files },
    /*
     * The last two are not among `all`. The C library (2.36) calls handlers of a list that
     * grows meanwhile, and with others' allocations in what the list was it fails with its own
     * malloc, too, in one of a hundred runs; without other kinds in none of two hundred.
     */
    { "at-fork", at_fork },
    /*
     * It moves the environment, which other kinds read without a
     * lock (posix_spawn, popen, what asks for LANG): POSIX forbids that, and the C
     * library's own malloc fails so now and then.
     */
    { "environment", environment },
};

enum { NR_KINDS = sizeof kinds / sizeof *kinds, NR_TOGETHER = NR_KINDS - 2 };
static size_t kind_of[THREADS];

static void *work(void *argument)
{
    size_t me = (uintptr_t)argument, n = me;

    seed = me + 1;
    for (; !__atomic_load_n(&over, __ATOMIC_RELAXED); n++) {
        size_t kind = kind_of[me] == NR_KINDS ? n % NR_TOGETHER : kind_of[me];

        kinds[kind].call();
        slow_paths();
        __atomic_add_fetch(&nr_rounds[me], 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void live(void)
{
    void *p[20];
    int n;

    alarm(50);
    for (n = 0; n < 20; n++) {
        p[n] = opaque(calloc(1, 5000u * (unsigned)n));
        CHECK(p[n] && all_zero(p[n], 5000u * (unsigned)n), "calloc in a child, block %d", n);
        memset(p[n], 0x77, 5000u * (unsigned)n);
    }
    for (n = 0; n < 20; n++)
        free(p[n]);
    slow_paths();
    malloc_trim(0);
}

static void *fork_often(void *argument)
{
    long nr = (long)(uintptr_t)argument, i, before;

    for (i = 0; i < nr && !__atomic_load_n(&nr_failed, __ATOMIC_RELAXED); i++) {
        pid_t pid;

        before = __atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED);
        if (i % 4 == 0)
            while (__atomic_load_n(&nr_rounds[i % THREADS], __ATOMIC_RELAXED) == before)
                usleep(50);
        pid = fork();
        if (pid == 0)
            child(live, i % 10 == 0);
        expect_good_end(pid, "a child");
        slow_paths();
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long forks = number_of(argv, "forks", 40), forkers = number_of(argv, "forkers", 1);
    pthread_t thread[THREADS], forker[MOST_FORKERS];
    size_t kind, n;

    for (kind = 0; kind < NR_KINDS; kind++)
        if (argc > 1 && strcmp(argv[1], kinds[kind].name) == 0)
            break;
    if (forkers > MOST_FORKERS || (kind == NR_KINDS && !(argc > 1 && strcmp(argv[1], "all") == 0)))
        usage("forks KIND|all [forks=N] [forkers=N]");
    for (n = 0; n < THREADS; n++) {
        kind_of[n] = kind;
        if (pthread_create(&thread[n], NULL, work, (void *)(uintptr_t)n))
            not_possible("a thread");
    }
    for (n = 1; n < (size_t)forkers; n++)
        if (pthread_create(&forker[n], NULL, fork_often, (void *)(uintptr_t)(forks / forkers)))
            not_possible("a thread");
    fork_often((void *)(uintptr_t)(forks / forkers));
    for (n = 1; n < (size_t)forkers; n++)
        pthread_join(forker[n], NULL);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (n = 0; n < THREADS; n++)
        pthread_join(thread[n], NULL);
    return finish("forks");
}
