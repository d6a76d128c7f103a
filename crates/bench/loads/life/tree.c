/* tree: binary trees that live shortly, beside one that lives long.
 *
 * After Boehm's GCBench (from Ellis and Kovac), as the Benchmarks Game's
 * binary-trees has it: a tree that is stretched and dropped, one that stays,
 * and many of each depth, all of nodes of one size.
 */
#include "life.h"

enum { DEEPEST = 17, LEAST = 4, PLANTED = 1 << 20 };

struct node {
    struct node *left, *right;
    uint32_t mark, depth;
};

/* Freed in the order of its structure, from leaves to root. */
static uint64_t drop(struct node *node, uint32_t mark, uint32_t depth)
{
    if (!node)
        return 0;
    if (node->mark != mark || node->depth != depth)
        spoiled(node, sizeof *node);
    uint64_t nr = 1 + drop(node->left, mark, depth - 1) + drop(node->right, mark, depth - 1);
    free(node);
    return nr;
}

static struct node *plant(uint32_t mark, uint32_t depth)
{
    struct node *node = got(malloc(sizeof *node), sizeof *node);
    bool leaf = depth == 0;
    *node = (struct node){.mark = mark, .depth = depth};
    node->left = leaf ? NULL : plant(mark, depth - 1);
    node->right = leaf ? NULL : plant(mark, depth - 1);
    return node;
}

static uint64_t drop_whole(struct node *node, uint32_t mark, uint32_t depth)
{
    uint64_t nr = drop(node, mark, depth), due = (2ull << depth) - 1;
    if (nr != due)
        fail("a tree has %zu nodes instead of %zu", (size_t)nr, (size_t)due);
    return nr;
}

static uint64_t run(const struct job *job)
{
    struct owner owner = new_owner(job, 0);
    uint32_t mark = next_mark(&owner), staying_mark = next_mark(&owner);
    uint64_t ops = drop_whole(plant(mark, DEEPEST + 1), mark, DEEPEST + 1);
    struct node *staying = plant(staying_mark, DEEPEST);

    uint64_t nodes = scaled(job, PLANTED);
    for (uint32_t depth = LEAST; depth <= DEEPEST; depth += 2) {
        for (uint64_t trees = (nodes >> depth) + 1; trees > 0; trees--) {
            mark = next_mark(&owner);
            ops += drop_whole(plant(mark, depth), mark, depth);
        }
    }
    ops += drop_whole(staying, staying_mark, DEEPEST);
    return ops;
}

const struct load load_tree = {
    .name = "tree",
    .threads = 1,
    .words = "binary trees of nodes of 24 bytes, 2^4 to 2^17 leaves, planted and dropped "
             "beside one that stays (13 MB live)",
    .run = run,
};
