/*
 * Filters of system calls (seccomp(2)): one call refused with an error number,
 * or deadly; or a list of what is allowed, and all else is deadly.
 */
#ifndef REFUSE_H
#define REFUSE_H

#include "attack.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#ifndef __NR_process_madvise
#define __NR_process_madvise 440
#endif
#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_RISCV64
#endif

/* A call, or those of its calls whose argument has these bits. */
struct call {
    const char *name;
    int number, argument;
    unsigned mask, value;
};

/*
 * What the library calls, by itself and through the C library. Where a program
 * cannot live without a call, the part of it that the library alone makes.
 * Not here: futex, without which no lock of the C library works.
 */
static const struct call calls[] = {
    { "mmap", __NR_mmap, -1, 0, 0 },
    { "mmap-noreserve", __NR_mmap, 3, MAP_NORESERVE, MAP_NORESERVE },
    { "mmap-fixed-noreplace", __NR_mmap, 3, MAP_FIXED_NOREPLACE, MAP_FIXED_NOREPLACE },
    { "mprotect", __NR_mprotect, -1, 0, 0 },
    { "mprotect-rw", __NR_mprotect, 2, 7, PROT_READ | PROT_WRITE },
    { "munmap", __NR_munmap, -1, 0, 0 },
    { "mremap", __NR_mremap, -1, 0, 0 },
    { "mremap-dontunmap", __NR_mremap, 3, 4, 4 },
    { "madvise", __NR_madvise, -1, 0, 0 },
    { "process_madvise", __NR_process_madvise, -1, 0, 0 },
    { "mincore", __NR_mincore, -1, 0, 0 },
    { "membarrier", __NR_membarrier, -1, 0, 0 },
    { "rseq", __NR_rseq, -1, 0, 0 },
    { "open", __NR_openat, -1, 0, 0 },
    { "read", __NR_read, -1, 0, 0 },
    { "close", __NR_close, -1, 0, 0 },
    { "clock_gettime", __NR_clock_gettime, -1, 0, 0 },
    { "sched_yield", __NR_sched_yield, -1, 0, 0 },
    { "prctl", __NR_prctl, -1, 0, 0 },
    { "getrlimit", __NR_prlimit64, -1, 0, 0 },
    { "getrandom", __NR_getrandom, -1, 0, 0 },
};

static const struct {
    const char *name;
    unsigned action;
} actions[] = {
    { "EPERM", SECCOMP_RET_ERRNO | EPERM },
    { "ENOSYS", SECCOMP_RET_ERRNO | ENOSYS },
    { "ENOMEM", SECCOMP_RET_ERRNO | ENOMEM },
    { "EINVAL", SECCOMP_RET_ERRNO | EINVAL },
    { "EAGAIN", SECCOMP_RET_ERRNO | EAGAIN },
    { "kill", SECCOMP_RET_KILL_PROCESS },
    /* A planted fault: it is said that it was done, and nothing was. */
    { "lie", SECCOMP_RET_ERRNO | 0 },
};

enum { MOST_STEPS = 400 };
static struct sock_filter filter[MOST_STEPS];
static unsigned short nr_filter;

static void put(unsigned short code, unsigned k, unsigned char yes, unsigned char no)
{
    if (nr_filter == MOST_STEPS)
        abort();
    filter[nr_filter++] = (struct sock_filter){ code, yes, no, k };
}

static void load(unsigned offset) { put(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }
static void end_with(unsigned action) { put(BPF_RET | BPF_K, action, 0, 0); }
/* Goes on behind the next `skip` steps unless the loaded word is this. */
static void unless_equal(unsigned k, unsigned char skip)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, k, 0, skip);
}

static void load_number(void) { load(offsetof(struct seccomp_data, nr)); }
static void load_argument(int n)
{
    /* The low word; what is looked at here has no high one. */
    load((unsigned)(offsetof(struct seccomp_data, args) + 8 * (unsigned)n));
}

static void begin_filter(void)
{
    nr_filter = 0;
    load(offsetof(struct seccomp_data, arch));
    unless_equal(MACHINE, 1);
    put(BPF_JMP | BPF_JA, 1, 0, 0);
    end_with(SECCOMP_RET_ALLOW);
    load_number();
}

/* The call ends with the action; with an argument, where (argument & mask) is the value. */
static void rule(int number, int argument, unsigned mask, unsigned value, unsigned action)
{
    if (argument < 0) {
        unless_equal((unsigned)number, 1);
        end_with(action);
        return;
    }
    unless_equal((unsigned)number, 5);
    load_argument(argument);
    put(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    unless_equal(value, 1);
    end_with(action);
    load_number();
}

static unsigned action_of(const char *name)
{
    size_t n;

    for (n = 0; n < sizeof actions / sizeof *actions; n++)
        if (strcmp(actions[n].name, name) == 0)
            return actions[n].action;
    usage("... EPERM|ENOSYS|ENOMEM|EINVAL|EAGAIN|kill|lie");
}

/*
 * All threads have the filter when this returns. `seen`: it is installed by the C
 * library's function, by which an allocator may notice it; else by an instruction of
 * our own, so that each refusal comes as a surprise.
 */
static void install(int seen)
{
    struct sock_fprog program = { nr_filter, filter };
    long result;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        not_possible("no new privileges");
    if (seen) {
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                         &program);
    } else {
#ifdef __x86_64__
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "0"((long)SYS_seccomp), "D"((long)SECCOMP_SET_MODE_FILTER),
                           "S"((long)SECCOMP_FILTER_FLAG_TSYNC), "d"(&program)
                         : "rcx", "r11", "memory");
#else
        result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                         &program);
#endif
    }
    if (result)
        not_possible("a filter of system calls");
}

/* Refuses one call of the table, `CALL:HOW`. */
static inline void refuse(const char *rule_text)
{
    size_t n, length = strcspn(rule_text, ":");
    unsigned action;

    for (n = 0; n < sizeof calls / sizeof *calls; n++)
        if (strncmp(calls[n].name, rule_text, length) == 0 && !calls[n].name[length])
            break;
    if (n == sizeof calls / sizeof *calls || !rule_text[length])
        usage("... CALL:HOW, a call of the table in refuse.h");
    begin_filter();
    action = action_of(rule_text + length + 1);
    rule(calls[n].number, calls[n].argument, calls[n].mask, calls[n].value, action);
    end_with(SECCOMP_RET_ALLOW);
    /* What kills at once can only be kept from, not answered. */
    install(action == SECCOMP_RET_KILL_PROCESS);
}

/* The calls that one of OpenSSH's lists names. */
static const int openssh_allows[] = {
    __NR_brk, __NR_clock_gettime, __NR_clock_nanosleep, __NR_close, __NR_exit, __NR_exit_group,
    __NR_geteuid, __NR_getpgid, __NR_getpid, __NR_getrandom, __NR_gettimeofday, __NR_getuid,
    __NR_mremap, __NR_munmap, __NR_nanosleep, __NR_ppoll, __NR_pselect6, __NR_read,
    __NR_rt_sigprocmask, __NR_shutdown, __NR_write,
#ifdef __NR_poll
    __NR_poll, __NR_select, __NR_time,
#endif
};
static const int openssh_denies[] = { __NR_openat, __NR_fstat, __NR_newfstatat };

/*
 * What sshd's process before authentication may call; all else kills it:
 * `openssh` is the list of version 9.0, `openssh-strict` the later one, which
 * looks at the arguments of futex, madvise and mmap, too.
 */
static inline void allow_list(const char *name)
{
    static const unsigned advices[] = { 0, 4, 8, 10, 16, 18 };
    static const unsigned waits[] = { FUTEX_WAIT, FUTEX_WAKE, FUTEX_REQUEUE, FUTEX_CMP_REQUEUE,
                                      FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET };
    const unsigned flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_FIXED_NOREPLACE;
    const unsigned not_wait = ~(unsigned)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME);
    int strict = strcmp(name, "openssh-strict") == 0;
    size_t n;

    if (!strict && strcmp(name, "openssh"))
        usage("list=openssh or list=openssh-strict");
    begin_filter();
    for (n = 0; n < sizeof openssh_denies / sizeof *openssh_denies; n++)
        rule(openssh_denies[n], -1, 0, 0, SECCOMP_RET_ERRNO | EACCES);
    for (n = 0; n < sizeof openssh_allows / sizeof *openssh_allows; n++)
        rule(openssh_allows[n], -1, 0, 0, SECCOMP_RET_ALLOW);
    if (strict) {
        for (n = 0; n < sizeof waits / sizeof *waits; n++)
            rule(__NR_futex, 1, not_wait, waits[n], SECCOMP_RET_ALLOW);
        for (n = 0; n < sizeof advices / sizeof *advices; n++)
            rule(__NR_madvise, 2, ~0u, advices[n], SECCOMP_RET_ALLOW);
        rule(__NR_madvise, -1, 0, 0, SECCOMP_RET_ERRNO | EINVAL);
        /* Other flags are refused, what is executable is deadly. */
        unless_equal(__NR_mmap, 5);
        load_argument(3);
        put(BPF_ALU | BPF_AND | BPF_K, ~flags, 0, 0);
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
        end_with(SECCOMP_RET_ERRNO | EINVAL);
        load_number();
    } else {
        rule(__NR_futex, -1, 0, 0, SECCOMP_RET_ALLOW);
        rule(__NR_madvise, -1, 0, 0, SECCOMP_RET_ALLOW);
    }
    rule(__NR_mmap, 2, ~(unsigned)(PROT_READ | PROT_WRITE), 0, SECCOMP_RET_ALLOW);
    rule(__NR_mprotect, 2, ~(unsigned)(PROT_READ | PROT_WRITE), 0, SECCOMP_RET_ALLOW);
    end_with(SECCOMP_RET_KILL_PROCESS);
    install(1);
}

/* What the words `closed`, `later=CALL:HOW` and `list=NAME` say. */
static inline void change_the_rules(char **words)
{
    const struct rlimit none = { 0, 0 };

    if (has_word(words, "closed")
        && (setrlimit(RLIMIT_NOFILE, &none) || setrlimit(RLIMIT_NPROC, &none)
            || setrlimit(RLIMIT_FSIZE, &none)))
        not_possible("limits of files and processes");
    if (text_of(words, "later"))
        refuse(text_of(words, "later"));
    if (text_of(words, "list"))
        allow_list(text_of(words, "list"));
}

#endif
