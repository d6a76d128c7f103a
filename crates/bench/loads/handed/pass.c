/* Threads that hand objects to the next: one allocates, another frees.
 *
 * THREADS form chains of STAGES. In a chain of two the first allocates and the second frees. A
 * longer one is a ring, as a server's threads are: each takes from the one before, frees every
 * other object and allocates a reply of another size in its place, and passes all on; the first
 * frees what comes round. Pinned, the stages are on the CPUs in turn. So each object has
 * been handed over before it is freed.
 *
 * An object bears the number of its place in the order and of the stage that handed it over, at
 * both ends; who takes it looks for both. Memory that was handed out twice has the later one's, and
 * after an object that was lost (--plant lost) comes the next.
 *
 * With --rest, the threads live on when all is freed. What is resident is said after the last free,
 * MS later, in which nothing is called, and after a trickle of MS / 2 more: an object each 10
 * ms in each chain, handed over as before. The output is
 *
 *   ops N
 *   rest KIB_AT_ONCE KIB_IDLE KIB_TRICKLED
 */
#include "handed.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 512, SPINS = 64, OBJECTS = 1 << 20, TRICKLE_MS = 10 };

struct object {
    uint64_t place;
    uint32_t size, stage;
}; /* and `place` again at the end */

/* Of one sender and one receiver: the objects from `taken` to `put`. */
struct queue {
    _Alignas(128) _Atomic uint32_t put;
    _Atomic uint32_t receiver_sleeps;
    _Alignas(128) _Atomic uint32_t taken;
    _Atomic uint32_t sender_sleeps;
    _Alignas(128) struct object *objects[ROOM];
};

struct worker {
    struct owner owner;
    struct queue *from, *to;
    const struct order *order;
    uint64_t number, stage;
};

/* What is done now; changes only while all threads wait. */
static struct {
    uint64_t objects, batch;
    bool is_trickle;
} phase;
static pthread_barrier_t begins, ended;

static void sleep_ms(uint64_t ms)
{
    struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

static void wake(_Atomic uint32_t *sleeps)
{
    if (atomic_load(sleeps) && atomic_exchange(sleeps, 0))
        syscall(SYS_futex, sleeps, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Returns when `word` has passed `value`. The flag is set before the word is looked at again, and
 * the other changes the word before it looks at the flag: all four in one order. The wait is for
 * the flag, so that a wake for an earlier value that clears it ends the wait before it begins. */
static void wait_past(_Atomic uint32_t *word, uint32_t value, _Atomic uint32_t *sleeps)
{
    for (unsigned spin = 0; atomic_load(word) == value; spin++) {
        if (spin < SPINS)
            continue;
        atomic_store(sleeps, 1);
        if (atomic_load(word) == value)
            syscall(SYS_futex, sleeps, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    }
}

static void send(struct queue *queue, struct object **objects, uint32_t nr)
{
    uint32_t put = atomic_load_explicit(&queue->put, memory_order_relaxed);
    for (;;) {
        uint32_t taken = atomic_load(&queue->taken);
        if (ROOM - (put - taken) >= nr)
            break;
        wait_past(&queue->taken, taken, &queue->sender_sleeps);
    }
    for (uint32_t i = 0; i < nr; i++)
        queue->objects[(put + i) % ROOM] = objects[i];
    atomic_store(&queue->put, put + nr);
    wake(&queue->receiver_sleeps);
}

static void receive(struct queue *queue, struct object **objects, uint32_t nr)
{
    uint32_t taken = atomic_load_explicit(&queue->taken, memory_order_relaxed);
    for (;;) {
        uint32_t put = atomic_load(&queue->put);
        if (put - taken >= nr)
            break;
        wait_past(&queue->put, put, &queue->receiver_sleeps);
    }
    for (uint32_t i = 0; i < nr; i++)
        objects[i] = queue->objects[(taken + i) % ROOM];
    atomic_store(&queue->taken, taken + nr);
    /* A sender that waits does so for a while: else each object would wake it. */
    uint32_t left = atomic_load(&queue->put) - taken - nr;
    if (left <= ROOM / 2)
        wake(&queue->sender_sleeps);
}

static void mark(struct object *object, uint64_t place, uint32_t size, uint32_t stage)
{
    *object = (struct object){.place = place, .size = size, .stage = stage};
    memcpy((char *)object + size - sizeof place, &place, sizeof place);
}

static struct object *allocate(struct worker *me, uint64_t place)
{
    uint32_t least = 24u;
    uint32_t most = me->order->mixed ? 64u << below(&me->owner, 8) : 256;
    uint32_t size = between(&me->owner, least, most);
    struct object *object = got(malloc(size), size);
    mark(object, place, size, (uint32_t)me->stage);
    return object;
}

static void check(const struct object *object, uint64_t place, uint64_t stage)
{
    uint64_t end;
    if (object->place != place || object->stage != stage || object->size < sizeof *object)
        fail("object %" PRIu64 " of stage %" PRIu64 " says that it is %" PRIu64 " of %u", place,
             stage, object->place, object->stage);
    memcpy(&end, (const char *)object + object->size - sizeof end, sizeof end);
    if (end != place)
        spoiled(object, object->size);
}

static void allocate_some(struct worker *me, uint64_t place, uint32_t nr)
{
    struct object *objects[MOST_BATCH];
    for (uint32_t i = 0; i < nr; i++) {
        bool one_is_lost = me->order->plant == LOST && place + i >= phase.objects / 2;
        objects[i] = allocate(me, place + i + one_is_lost);
    }
    send(me->to, objects, nr);
}

static void free_some(struct worker *me, uint64_t place, uint32_t nr, uint64_t stage)
{
    struct object *objects[MOST_BATCH];
    receive(me->from, objects, nr);
    for (uint32_t i = 0; i < nr; i++) {
        check(objects[i], place + i, stage);
        free(objects[i]);
    }
}

static void reply_to_some(struct worker *me, uint64_t place, uint32_t nr)
{
    struct object *objects[MOST_BATCH];
    receive(me->from, objects, nr);
    for (uint32_t i = 0; i < nr; i++) {
        check(objects[i], place + i, me->stage - 1);
        if ((place + i + me->stage) % 2) {
            free(objects[i]);
            objects[i] = allocate(me, place + i);
        } else {
            objects[i]->stage = (uint32_t)me->stage;
        }
    }
    send(me->to, objects, nr);
}

static void work(struct worker *me)
{
    uint64_t stages = me->order->stages, batch = phase.batch, back = 0;
    /* No more in a ring than one queue has room for: so no sender waits for itself. */
    uint64_t window = ROOM / batch * batch;
    bool is_ring = stages > 2;
    for (uint64_t i = 0; i < phase.objects; i += batch) {
        if (me->stage == 0) {
            if (is_ring && i - back >= window) {
                free_some(me, back, (uint32_t)batch, stages - 1);
                back += batch;
            }
            allocate_some(me, i, (uint32_t)batch);
            if (phase.is_trickle)
                sleep_ms(TRICKLE_MS);
        } else if (is_ring) {
            reply_to_some(me, i, (uint32_t)batch);
        } else {
            free_some(me, i, (uint32_t)batch, 0);
        }
    }
    for (; me->stage == 0 && is_ring && back < phase.objects; back += batch)
        free_some(me, back, (uint32_t)batch, stages - 1);
}

static void *live(void *context)
{
    struct worker *me = context;
    /* Chains begin on the CPUs in turn too, where they are as long as there are CPUs or longer. */
    if (me->order->pinned)
        pin(me->stage);
    for (;;) {
        pthread_barrier_wait(&begins);
        if (!phase.objects)
            return NULL;
        work(me);
        pthread_barrier_wait(&ended);
    }
}

static void do_phase(uint64_t objects, uint64_t batch, bool is_trickle)
{
    phase.objects = objects;
    phase.batch = batch;
    phase.is_trickle = is_trickle;
    pthread_barrier_wait(&begins);
    if (objects)
        pthread_barrier_wait(&ended);
}

static uint64_t resident_kib(void)
{
    char text[128];
    uint64_t size, resident;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (n <= 0)
        fail("/proc/self/statm cannot be read");
    text[n] = 0;
    close(file);
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
        fail("/proc/self/statm is %s", text);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void rest(uint64_t ms)
{
    uint64_t at_once = resident_kib();
    sleep_ms(ms);
    uint64_t idle = resident_kib();
    do_phase(ms / 2 / TRICKLE_MS + 1, 1, true);
    dprintf(STDOUT_FILENO, "rest %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", at_once, idle,
            resident_kib());
}

void pass_on(const struct order *order)
{
    uint64_t threads = order->threads, stages = order->stages, chains = threads / stages;
    if (stages < 2 || threads % stages)
        fail("%" PRIu64 " threads are no chains of %" PRIu64, threads, stages);
    struct job job = {.scale = order->scale, .seed = 1};
    uint64_t a_chain = scaled(&job, OBJECTS / chains / (stages > 2 ? stages / 2 : 1));
    a_chain = (a_chain + order->batch - 1) / order->batch * order->batch;

    struct queue *queues = map_table(threads, sizeof *queues);
    static struct worker workers[MOST_THREADS];
    static pthread_t ids[MOST_THREADS];
    pthread_barrier_init(&begins, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&ended, NULL, (unsigned)threads + 1);
    for (uint64_t t = 0; t < threads; t++) {
        uint64_t stage = t % stages, first = t - stage;
        workers[t] = (struct worker){
            .owner = new_owner(&job, t),
            .from = &queues[t],
            .to = &queues[first + (stage + 1) % stages],
            .order = order,
            .stage = stage,
        };
        if (pthread_create(&ids[t], NULL, live, &workers[t]))
            fail("thread %" PRIu64 " does not start", t);
    }
    do_phase(a_chain, order->batch, false);
    dprintf(STDOUT_FILENO, "ops %" PRIu64 "\n", a_chain * chains);
    if (order->rest_ms)
        rest(order->rest_ms);
    do_phase(0, 0, false);
    for (uint64_t t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
}
