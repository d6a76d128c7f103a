/* packets: CPUs that allocate packets for others that free them, after
 * `stress-ng --rawpkt`, by which the mail thread of 2023 on the delayed
 * freezing of CPU partial slabs was measured.
 *
 * Of each pair of threads one makes packets, a head of 256 bytes (as an
 * sk_buff and its skb_shared_info) and data of 128 bytes and more, and hands
 * them over in bursts, as a network card's driver does. The other frees both.
 * The ring between them takes no lock and calls nothing: the pair's time is the
 * allocator's, and that of waiting for each other.
 */
#include "kernel.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

enum { PAIRS, PACKETS, BURST, MOST_BYTES, PINNED };

static const struct setting settings[] = {
    [PAIRS] = {.name = "pairs", .usual = 1, .least = 1, .most = 128},
    [PACKETS] = {.name = "packets", .usual = 1000000, .least = 1, .most = 1000000000000,
                 .scales = true},
    [BURST] = {.name = "burst", .usual = 64, .least = 1, .most = 4096},
    [MOST_BYTES] = {.name = "bytes", .usual = 2048, .least = 128, .most = 65536},
    [PINNED] = {.name = "pinned", .usual = 1, .least = 0, .most = 1},
    {.name = NULL},
};

enum { HEAD_BYTES = 256, LEAST_BYTES = 128, DATA_AT = 16, BURSTS = 16, SPINS = 200 };
enum { PRODUCER, CONSUMER };

/* Bursts on their way; each side writes its own line only. */
struct ring {
    _Alignas(64) _Atomic uint64_t put;   /* packets; by the producer */
    _Atomic bool closed;                 /* nothing more will be put */
    _Alignas(64) _Atomic uint64_t taken; /* packets; by the consumer */
    struct slot *slots;
};

struct side {
    const struct order *order;
    struct ring *ring;
    struct ledger *ledger;
    struct gate *gate;
    uint64_t packets;
    struct owner owner; /* of both sides the same: what comes is known */
    unsigned nr, role;
};

static uint64_t capacity(const struct order *order)
{
    return order->values[BURST] * BURSTS;
}

/* On its own CPU the other side is there at once. If not, it may want this CPU;
 * a thread that sleeps is preferred to strangers when it wakes, one that yields
 * is not. */
static void wait_a_little(unsigned *spins)
{
    if (++*spins < SPINS) {
#ifdef __x86_64__
        __builtin_ia32_pause();
#endif
        return;
    }
    static const struct timespec moment = {.tv_nsec = 20000};
    *spins = 0;
    nanosleep(&moment, NULL);
}

static struct slot make_packet(struct side *me)
{
    struct slot head, data;
    uint32_t mark = next_mark(&me->owner);
    uint32_t most = (uint32_t)me->order->values[MOST_BYTES];
    book(me->ledger, &head, HEAD_BYTES, mark);
    book(me->ledger, &data, between(&me->owner, LEAST_BYTES, most), ~mark);
    memcpy((char *)head.at + DATA_AT, &data, sizeof data);
    me->ledger->sent++;
    return head;
}

/* `keep`: all but its data, which is the planted fault. */
static void free_packet(struct side *me, struct slot *head, bool keep)
{
    struct slot data;
    memcpy(&data, (char *)head->at + DATA_AT, sizeof data);
    unbook(me->ledger, head);
    if (!keep)
        unbook(me->ledger, &data);
}

static void produce(struct side *me)
{
    struct ring *ring = me->ring;
    uint64_t room = capacity(me->order), put = 0, left = me->packets;
    enum plant plant = me->nr == 0 ? me->order->plant : NOTHING;
    for (unsigned spins = 0; left > 0;) {
        uint64_t burst = left < me->order->values[BURST] ? left : me->order->values[BURST];
        /* Acquire: what the consumer read there is read. Pairs with its release. */
        while (put + burst - atomic_load_explicit(&ring->taken, memory_order_acquire) > room)
            wait_a_little(&spins);
        for (uint64_t i = 0; i < burst; i++) {
            struct slot packet = make_packet(me);
            if (plant == LOSE) {
                free_packet(me, &packet, false);
                plant = NOTHING;
                continue;
            }
            if (plant == SPOIL) {
                spoil(&packet);
                plant = NOTHING;
            }
            ring->slots[put++ % room] = packet;
        }
        /* Release: the packets are there before their number is. */
        atomic_store_explicit(&ring->put, put, memory_order_release);
        left -= burst;
    }
    atomic_store_explicit(&ring->closed, true, memory_order_release);
}

static void take(struct side *me, uint64_t at)
{
    struct slot packet = me->ring->slots[at % capacity(me->order)], data;
    uint32_t mark = next_mark(&me->owner);
    uint32_t size = between(&me->owner, LEAST_BYTES, (uint32_t)me->order->values[MOST_BYTES]);
    memcpy(&data, (char *)packet.at + DATA_AT, sizeof data);
    if (packet.mark != mark || data.mark != ~mark || data.size != size)
        fail("packet %u of %u bytes arrived in place of %u of %u bytes", packet.mark & 0xffffff,
             data.size, mark & 0xffffff, size);
    me->ledger->arrived++;
    free_packet(me, &packet, me->nr == 0 && at == 0 && me->order->plant == KEEP);
}

static void consume(struct side *me)
{
    struct ring *ring = me->ring;
    uint64_t taken = 0;
    for (unsigned spins = 0;;) {
        /* In this order: after `closed` no packet is put. */
        bool closed = atomic_load_explicit(&ring->closed, memory_order_acquire);
        uint64_t put = atomic_load_explicit(&ring->put, memory_order_acquire);
        if (taken == put && closed)
            return;
        if (taken == put) {
            wait_a_little(&spins);
            continue;
        }
        while (taken < put)
            take(me, taken++);
        atomic_store_explicit(&ring->taken, taken, memory_order_release);
    }
}

static void *act(void *context)
{
    struct side *me = context;
    prctl(PR_SET_TIMERSLACK, 1); /* ns; else each sleep lasts 50 us longer */
    if (me->order->values[PINNED])
        pin_to(2 * me->nr + me->role);
    pass(me->gate);
    if (me->role == PRODUCER)
        produce(me);
    else
        consume(me);
    return NULL;
}

static void run(const struct order *order)
{
    unsigned pairs = (unsigned)order->values[PAIRS], nr = 2 * pairs;
    uint64_t packets = order->values[PACKETS];
    struct job job = {.scale = 1, .seed = order->seed};
    struct ring *rings = map_table(pairs, sizeof *rings);
    struct side *sides = map_table(nr, sizeof *sides);
    struct ledger *ledgers = share_table(nr, sizeof *ledgers);
    struct gate *gate = new_gate(nr);
    for (unsigned p = 0; p < pairs; p++)
        rings[p].slots = map_table(capacity(order), sizeof(struct slot));
    for (unsigned i = 0; i < nr; i++)
        sides[i] = (struct side){
            .order = order,
            .ring = &rings[i / 2],
            .ledger = &ledgers[i],
            .gate = gate,
            .packets = packets / pairs + (i / 2 < packets % pairs),
            .owner = new_owner(&job, i / 2),
            .nr = i / 2,
            .role = i % 2,
        };
    uint64_t ns = run_members(THREADS, nr, act, sides, sizeof *sides, gate);

    struct ledger sum = settle(ledgers, nr, "packets");
    if (sum.arrived != packets)
        fail("%" PRIu64 " of %" PRIu64 " packets were made", sum.arrived, packets);
    say(packets, ns);
}

const struct shape shape_packets = {
    .name = "packets",
    .threads = 2,
    .words = "a CPU allocates heads of 256 and data of 128 to 2048 bytes for another, which frees "
             "them, in bursts of 64 packets (3 MB live)",
    .settings = settings,
    .run = run,
};
