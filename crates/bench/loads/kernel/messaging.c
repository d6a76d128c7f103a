/* messaging: groups of senders and receivers, after `perf bench sched
 * messaging`, which is Molnar's and Russell's hackbench.
 *
 * In a group each of `fan` senders sends `loops` messages to each of `fan`
 * receivers, by a socket pair or a pipe a receiver; so there are 2 times `fan`
 * members a group. In hackbench it is the kernel that allocates for a message
 * what it sends it in (the mail thread of 2023 on the delayed freezing of CPU
 * partial slabs was measured by it). Here the sender allocates each message:
 *
 *   threads     the receiver gets its address, and frees it
 *   processes   the receiver allocates, copies, and each frees its own
 *
 * A message bears its sender in its group and its number at both ends. The
 * numbers of a sender must come to each receiver in order; after the last comes
 * one that says so.
 */
#include "kernel.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GROUPS, FAN, LOOPS, BYTES, PIPES, AS_PROCESSES };

/* hackbench's, but for its 10 groups. */
static const struct setting settings[] = {
    [GROUPS] = {.name = "groups", .usual = 5, .least = 1, .most = 100},
    [FAN] = {.name = "fan", .usual = 20, .least = 1, .most = 100},
    [LOOPS] = {.name = "loops", .usual = 100, .least = 1, .most = 10000000, .scales = true},
    /* A pipe keeps messages of up to PIPE_BUF in one piece. */
    [BYTES] = {.name = "bytes", .usual = 100, .least = 8, .most = 4096},
    [PIPES] = {.name = "pipes", .usual = 0, .least = 0, .most = 1},
    [AS_PROCESSES] = {.name = "processes", .usual = 0, .least = 0, .most = 1},
    {.name = NULL},
};

enum { MOST_FAN = 100, READ = 0, WRITE = 1, LAST = 0xffffff };

struct group {
    int ends[MOST_FAN][2];
};

struct member {
    const struct order *order;
    const struct group *group;
    struct ledger *ledger;
    struct gate *gate;
    unsigned at; /* in its group */
    bool sends, planted;
};

/* No two messages on their way bear the same mark. Both sides know the receiver:
 * what is left without it is the sender, 8 bits, and the message's number. */
static uint32_t of_receiver(uint64_t to)
{
    return (uint32_t)(to + 1) * 0x9e3779b1;
}

static bool by_address(const struct member *me)
{
    return !me->order->values[AS_PROCESSES];
}

static void write_all(int file, const void *from, size_t size)
{
    ssize_t done;
    while ((done = write(file, from, size)) < 0)
        if (errno != EINTR)
            fail("a message cannot be sent: %s", strerror(errno));
    if ((size_t)done != size)
        fail("%zd of the %zu bytes of a message were sent", done, size);
}

static void read_all(int file, void *to, size_t size)
{
    ssize_t done;
    while ((done = read(file, to, size)) < 0)
        if (errno != EINTR)
            fail("no message can be received: %s", strerror(errno));
    if ((size_t)done != size)
        fail("%zd of the %zu bytes of a message arrived", done, size);
}

static void send_one(struct member *me, uint64_t to, uint32_t number)
{
    struct slot message;
    int file = me->group->ends[to][WRITE];
    bool planted = me->planted && to == 0 && number == 1;
    book(me->ledger, &message, me->order->values[BYTES], (me->at << 24 | number) ^ of_receiver(to));
    me->ledger->sent++;
    if (planted && me->order->plant == LOSE) {
        unbook(me->ledger, &message);
        return;
    }
    if (by_address(me)) {
        if (planted && me->order->plant == SPOIL)
            spoil(&message);
        write_all(file, &message, sizeof message);
        return;
    }
    if (planted && me->order->plant == SPOIL) {
        spoil(&message);
        write_all(file, message.at, message.size);
        spoil(&message);
    } else {
        write_all(file, message.at, message.size);
    }
    unbook(me->ledger, &message);
}

static void send_all(struct member *me)
{
    uint64_t fan = me->order->values[FAN];
    for (uint64_t n = 1; n <= me->order->values[LOOPS] + 1; n++) {
        uint32_t number = n > me->order->values[LOOPS] ? LAST : (uint32_t)n;
        for (uint64_t to = 0; to < fan; to++)
            send_one(me, to, number);
    }
}

static struct slot receive_one(struct member *me, int file)
{
    struct slot message;
    if (by_address(me)) {
        read_all(file, &message, sizeof message);
    } else {
        book(me->ledger, &message, me->order->values[BYTES], 0);
        read_all(file, message.at, message.size);
        memcpy(&message.mark, message.at, sizeof message.mark);
    }
    me->ledger->arrived++;
    return message;
}

static void receive_all(struct member *me)
{
    uint32_t arrived[MOST_FAN] = {0};
    uint64_t fan = me->order->values[FAN];
    for (uint64_t ended = 0; ended < fan;) {
        struct slot message = receive_one(me, me->group->ends[me->at][READ]);
        uint32_t mark = message.mark ^ of_receiver(me->at);
        uint32_t sender = mark >> 24, number = mark & 0xffffff;
        if (message.size != me->order->values[BYTES] || sender >= fan)
            fail("a message of %u bytes from sender %u was never sent", message.size, sender);
        if (number == LAST) {
            if (arrived[sender] != me->order->values[LOOPS])
                fail("sender %u's last message is number %u", sender, arrived[sender]);
            ended++;
        } else if (number != ++arrived[sender]) {
            fail("message %u of sender %u arrived in place of %u", number, sender,
                 arrived[sender]);
        }
        if (!(me->planted && me->order->plant == KEEP && number == LAST && ended == fan))
            unbook(me->ledger, &message);
    }
}

static void *act(void *context)
{
    struct member *me = context;
    pass(me->gate);
    if (me->sends)
        send_all(me);
    else
        receive_all(me);
    return NULL;
}

/* As many open files as the system lets us have. */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void open_ends(struct group *group, uint64_t fan, bool pipes)
{
    for (uint64_t i = 0; i < fan; i++) {
        /* Packets in sequence: messages of several senders do not mix. */
        if (pipes ? pipe(group->ends[i]) : socketpair(AF_UNIX, SOCK_SEQPACKET, 0, group->ends[i]))
            fail("no %s: %s", pipes ? "pipe" : "socket pair", strerror(errno));
    }
}

static void run(const struct order *order)
{
    uint64_t nr_groups = order->values[GROUPS], fan = order->values[FAN];
    unsigned nr = (unsigned)(nr_groups * fan * 2);
    struct group *groups = map_table(nr_groups, sizeof *groups);
    struct member *members = map_table(nr, sizeof *members);
    struct ledger *ledgers = share_table(nr, sizeof *ledgers);
    struct gate *gate = new_gate(nr);

    raise_files();
    for (uint64_t g = 0; g < nr_groups; g++)
        open_ends(&groups[g], fan, order->values[PIPES]);
    for (unsigned i = 0; i < nr; i++)
        members[i] = (struct member){
            .order = order,
            .group = &groups[i / (2 * fan)],
            .ledger = &ledgers[i],
            .gate = gate,
            .at = (unsigned)(i % fan),
            .sends = i / fan % 2,
            /* One sender, and one receiver. */
            .planted = i % fan == 0 && i < 2 * fan,
        };
    enum kind kind = order->values[AS_PROCESSES] ? PROCESSES : THREADS;
    uint64_t ns = run_members(kind, nr, act, members, sizeof *members, gate);

    settle(ledgers, nr, "messages");
    say(nr_groups * fan * fan * order->values[LOOPS], ns);
}

const struct shape shape_messaging = {
    .name = "messaging",
    .threads = 200,
    .words = "5 groups of 20 senders and 20 receivers, threads: a message of 100 bytes is "
             "allocated by one and freed by another, its address sent through a socket",
    .settings = settings,
    .run = run,
};
