/* Exits 0 if the C library has registered restartable sequences. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int main(void) {
    const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    return size == NULL || *size == 0;
}
