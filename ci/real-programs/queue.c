/* A queue of strings between threads, each freed by the one that took it. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ITEMS = 20000 };

struct item { struct item *next; char text[]; };

static struct item *head;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long taken, bytes;

static void *produce(void *arg) {
    for (int n = 0; n < ITEMS; n++) {
        size_t size = (size_t)n % 3000;
        struct item *item = malloc(sizeof *item + size + 1);
        if (!item) abort();
        memset(item->text, 'a' + (int)(size_t)arg, size);
        item->text[size] = 0;
        pthread_mutex_lock(&lock);
        item->next = head;
        head = item;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void *consume(void *arg) {
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&lock);
        if (taken == THREADS * ITEMS) { pthread_mutex_unlock(&lock); return NULL; }
        struct item *item = head;
        if (item) { head = item->next; taken++; bytes += strlen(item->text); }
        pthread_mutex_unlock(&lock);
        free(item);
    }
}

int main(void) {
    pthread_t threads[2 * THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        pthread_create(&threads[2 * t], NULL, produce, (void *)t);
        pthread_create(&threads[2 * t + 1], NULL, consume, NULL);
    }
    for (int t = 0; t < 2 * THREADS; t++) pthread_join(threads[t], NULL);
    printf("%lu items, %lu bytes\n", taken, bytes);
    return 0;
}
