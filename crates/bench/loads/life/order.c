/* lifo and reversed: the order of frees is known.
 *
 * After the description of sh6bench (MicroQuill, for SmartHeap): objects of
 * sizes that go up and down are freed newest first, as by nested calls, or the
 * other way round, oldest first, as by a queue.
 */
#include "life.h"

enum { DEPTH = 20000, LEAST = 1, MOST = 1000 };

/* Sizes that follow each other closely, with a little noise. */
static uint32_t next_size(struct owner *owner, uint64_t n)
{
    uint32_t saw = (uint32_t)(n % (2 * MOST));
    uint32_t slope = saw < MOST ? saw : 2 * MOST - 1 - saw;
    uint32_t size = slope / 2 + below(owner, MOST / 2) + LEAST;
    return size < MOST ? size : MOST;
}

enum { CALLS = 270 };

/* Each round goes to the full depth and back to a random one. */
static uint64_t run_lifo(const struct job *job)
{
    struct slot *stack = map_table(DEPTH, sizeof *stack);
    struct owner owner = new_owner(job, 0);
    uint64_t ops = 0;
    uint32_t depth = 0;
    for (uint64_t round = scaled(job, CALLS); round > 0; round--) {
        while (depth < DEPTH)
            fill(&stack[depth++], &owner, next_size(&owner, ops++));
        uint32_t back = round > 1 ? below(&owner, DEPTH) : 0;
        while (depth > back)
            empty(&stack[--depth]);
    }
    unmap_table(stack, DEPTH, sizeof *stack);
    return ops;
}

const struct load load_lifo = {
    .name = "lifo",
    .threads = 1,
    .words = "stacks of 20,000 objects of 1 to 1000 bytes, freed newest first (10 MB live)",
    .run = run_lifo,
};

enum { QUEUES = 400 };

/* Each round queues to the full length, then frees the oldest down to a random
 * length. */
static uint64_t run_reversed(const struct job *job)
{
    struct slot *queue = map_table(DEPTH, sizeof *queue);
    struct owner owner = new_owner(job, 0);
    uint64_t ops = 0, freed = 0;
    for (uint64_t round = scaled(job, QUEUES); round > 0; round--) {
        for (; ops - freed < DEPTH; ops++)
            fill(&queue[ops % DEPTH], &owner, next_size(&owner, ops));
        uint64_t left = round > 1 ? below(&owner, DEPTH) : 0;
        for (; ops - freed > left; freed++)
            empty(&queue[freed % DEPTH]);
    }
    unmap_table(queue, DEPTH, sizeof *queue);
    return ops;
}

const struct load load_reversed = {
    .name = "reversed",
    .threads = 1,
    .words = "queues of 20,000 objects of 1 to 1000 bytes, freed oldest first (10 MB live)",
    .run = run_reversed,
};
