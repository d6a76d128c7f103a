/* web: requests, as a server with a pool of threads answers them.
 *
 * After what is known of such servers (Apache's and nginx's pools a request;
 * node's and Python's small objects): a request has a buffer, headers, a pool
 * of chunks, a body that grows, and a tree of small values; all go together
 * when it is answered, and now and then a session is put into a cache, where
 * it outlives many requests.
 */
#include "life.h"

enum { THREADS = 4, REQUESTS = 40000, SESSIONS = 3000, KEEP_ONE_IN = 2 };
enum { BUFFER = 16384, CHUNK = 4096, CONTEXT = 512 };
enum { MOST_HEADERS = 24, MOST_CHUNKS = 6, MOST_VALUES = 60 };
enum { MOST_OBJECTS = 2 + MOST_HEADERS + MOST_CHUNKS + MOST_VALUES };

struct server {
    struct owner owner;
    uint64_t requests;
    struct slot *sessions;
    uint64_t ops;
};

struct request {
    struct slot objects[MOST_OBJECTS];
    unsigned nr;
};

static void add(struct server *server, struct request *request, size_t size)
{
    fill(&request->objects[request->nr++], &server->owner, size);
}

static void add_zeroed(struct server *server, struct request *request, size_t size)
{
    void *at = got(calloc(1, size), size);
    check_word(at, 0, 0, size);
    check_word(at, size - sizeof(uint32_t), 0, size);
    hold(&request->objects[request->nr++], at, size, next_mark(&server->owner));
}

/* A body that doubles from 256 bytes to the size that it turns out to have;
 * its begin must move with it. */
static void read_body(struct server *server)
{
    struct owner *owner = &server->owner;
    uint32_t wanted = 256u << below(owner, 8), mark = next_mark(owner);
    void *body = NULL;
    for (uint32_t size = 256; size <= wanted; size *= 2) {
        body = got(realloc(body, size), size);
        if (size > 256)
            check_ends(body, size / 2, mark);
        memset((char *)body + size / 2, 0, size / 2);
        mark_ends(body, size, mark);
        server->ops++;
    }
    check_ends(body, wanted, mark);
    free(body);
}

static void answer(struct server *server, struct request *request)
{
    struct owner *owner = &server->owner;
    request->nr = 0;
    add(server, request, BUFFER);
    add_zeroed(server, request, CONTEXT);
    for (unsigned n = between(owner, 8, MOST_HEADERS); n > 0; n--)
        add(server, request, between(owner, 16, 128));
    for (unsigned n = between(owner, 1, MOST_CHUNKS); n > 0; n--)
        add(server, request, CHUNK);
    read_body(server);
    for (unsigned n = between(owner, 20, MOST_VALUES); n > 0; n--)
        add(server, request, between(owner, 24, 256));

    if (below(owner, KEEP_ONE_IN) == 0) {
        struct slot *session = &server->sessions[below(owner, SESSIONS)];
        empty(session);
        fill(session, owner, between(owner, 256, 4096));
        server->ops++;
    }
    server->ops += request->nr;
    empty_all(request->objects, request->nr);
}

static void *serve(void *context)
{
    struct server *server = context;
    struct request request;
    for (uint64_t n = 0; n < server->requests; n++)
        answer(server, &request);
    return NULL;
}

static uint64_t run(const struct job *job)
{
    struct server servers[THREADS];
    uint64_t ops = 0;
    for (unsigned i = 0; i < THREADS; i++)
        servers[i] = (struct server){
            .owner = new_owner(job, i),
            .requests = scaled(job, REQUESTS),
            .sessions = map_table(SESSIONS, sizeof(struct slot)),
        };
    run_threads(THREADS, serve, servers, sizeof *servers);
    for (unsigned i = 0; i < THREADS; i++) {
        empty_all(servers[i].sessions, SESSIONS);
        unmap_table(servers[i].sessions, SESSIONS, sizeof(struct slot));
        ops += servers[i].ops;
    }
    return ops;
}

const struct load load_web = {
    .name = "web",
    .threads = THREADS,
    .words = "requests of some 70 objects of 16 bytes to 32 KiB, freed together, beside "
             "sessions that stay (26 MB live)",
    .run = run,
};
