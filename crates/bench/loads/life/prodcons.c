/* prodcons: threads that only allocate, and threads that only free.
 *
 * After Lever and Boreham, "malloc() Performance in a Multithreaded Linux
 * Environment", USENIX 2000 (the program xmalloc-test), but asymmetric: first
 * one producer feeds three consumers, then three producers feed one consumer.
 * Consumers keep the newest objects for a while, so that what is freed lies
 * among what is not.
 */
#include "life.h"

#include <pthread.h>

enum { BATCH = 64, DEPTH = 16, MANY = 3, WINDOW = 24576, BATCHES = 6000 };
enum { LEAST = 16, MOST = 512 };

/* Batches on their way; both sides wait on it. */
struct channel {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned head, used;
    struct slot batches[DEPTH][BATCH];
};

struct producer {
    struct channel *channels; /* served in turn */
    unsigned nr_channels;
    uint64_t batches;
    struct owner owner;
};

struct consumer {
    struct channel *channel;
    uint64_t batches;
    struct slot *window;
    unsigned window_slots;
};

/* A thread of either kind: one of the two is set. */
struct role {
    struct producer *producer;
    struct consumer *consumer;
};

static void send(struct channel *channel, const struct slot *batch)
{
    pthread_mutex_lock(&channel->lock);
    while (channel->used == DEPTH)
        pthread_cond_wait(&channel->changed, &channel->lock);
    unsigned at = (channel->head + channel->used) % DEPTH;
    memcpy(channel->batches[at], batch, sizeof channel->batches[at]);
    if (channel->used++ == 0)
        pthread_cond_broadcast(&channel->changed);
    pthread_mutex_unlock(&channel->lock);
}

static void receive(struct channel *channel, struct slot *batch)
{
    pthread_mutex_lock(&channel->lock);
    while (channel->used == 0)
        pthread_cond_wait(&channel->changed, &channel->lock);
    memcpy(batch, channel->batches[channel->head], sizeof channel->batches[0]);
    channel->head = (channel->head + 1) % DEPTH;
    if (channel->used-- == DEPTH)
        pthread_cond_broadcast(&channel->changed);
    pthread_mutex_unlock(&channel->lock);
}

static void produce(struct producer *producer)
{
    struct slot batch[BATCH];
    for (uint64_t n = 0; n < producer->batches; n++) {
        for (unsigned i = 0; i < BATCH; i++)
            fill(&batch[i], &producer->owner, between(&producer->owner, LEAST, MOST));
        send(&producer->channels[n % producer->nr_channels], batch);
    }
}

static void consume(struct consumer *consumer)
{
    struct slot batch[BATCH];
    unsigned oldest = 0;
    for (uint64_t n = 0; n < consumer->batches; n++) {
        receive(consumer->channel, batch);
        for (unsigned i = 0; i < BATCH; i++) {
            empty(&consumer->window[oldest]);
            consumer->window[oldest] = batch[i];
            oldest = (oldest + 1) % consumer->window_slots;
        }
    }
    empty_all(consumer->window, consumer->window_slots);
}

static void *act(void *context)
{
    struct role *role = context;
    if (role->producer)
        produce(role->producer);
    else
        consume(role->consumer);
    return NULL;
}

/* As many channels as consumers; each producer sends `batches`, each consumer
 * receives its share. */
static uint64_t phase(const struct job *job, unsigned producers, unsigned consumers,
                      uint64_t batches)
{
    struct channel *channels = map_table(MANY, sizeof *channels);
    struct slot *window = map_table(WINDOW, sizeof *window);
    struct producer producer[MANY];
    struct consumer consumer[MANY];
    struct role roles[2 * MANY];
    unsigned nr = 0;

    for (unsigned i = 0; i < consumers; i++) {
        pthread_mutex_init(&channels[i].lock, NULL);
        pthread_cond_init(&channels[i].changed, NULL);
        consumer[i] = (struct consumer){
            .channel = &channels[i],
            .batches = producers * batches / consumers,
            .window = window + i * (WINDOW / consumers),
            .window_slots = WINDOW / consumers,
        };
        roles[nr++] = (struct role){.consumer = &consumer[i]};
    }
    for (unsigned i = 0; i < producers; i++) {
        producer[i] = (struct producer){
            .channels = channels,
            .nr_channels = consumers,
            .batches = batches,
            .owner = new_owner(job, i),
        };
        roles[nr++] = (struct role){.producer = &producer[i]};
    }
    run_threads(nr, act, roles, sizeof *roles);

    for (unsigned i = 0; i < consumers; i++) {
        pthread_cond_destroy(&channels[i].changed);
        pthread_mutex_destroy(&channels[i].lock);
    }
    unmap_table(window, WINDOW, sizeof *window);
    unmap_table(channels, MANY, sizeof *channels);
    return producers * batches * BATCH;
}

static uint64_t run(const struct job *job)
{
    uint64_t batches = scaled(job, BATCHES);
    return phase(job, 1, MANY, MANY * batches) + phase(job, MANY, 1, batches);
}

const struct load load_prodcons = {
    .name = "prodcons",
    .threads = 1 + MANY,
    .words = "1 thread allocates 16 to 512 bytes for 3 that free, then 3 for 1; the newest "
             "are kept a while (7 MB live)",
    .run = run,
};
