/* A read of one byte that looks at the registers before and after, on aarch64. */
#include <sys/mman.h>
#include <sys/syscall.h>

/* Values that a call keeps: x1 to x30 and v0 to v31; the stack pointer is 256 bytes above a page that
 * faults. */
struct kept {
    uint64_t general[32];
    uint64_t vector[32][2];
};

/* Named by the assembly. */
__attribute__((used)) static struct kept before, after;
__attribute__((used)) static uint64_t stack_pointer, own_stack_pointer;

static void read_with_registers(int fd)
{
    unsigned char *pages = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t state = 88172645463325252u;
    size_t n;

    if (pages == MAP_FAILED || mprotect(pages, 1 << 16, PROT_NONE))
        abort();
    for (n = 0; n < sizeof before / 8; n++)
        ((uint64_t *)&before)[n] = next_random(&state);
    before.general[0] = fd;
    before.general[1] = (uintptr_t)pages + (1 << 16) + 8000;
    before.general[2] = 1;
    before.general[8] = SYS_read;
    stack_pointer = (uintptr_t)pages + (1 << 16) + 256;
    asm volatile(
        "stp x29, x30, [sp, #-16]!\n\t"
        "adrp x16, own_stack_pointer\n\t"
        "mov x17, sp\n\t"
        "str x17, [x16, :lo12:own_stack_pointer]\n\t"
        "adrp x16, stack_pointer\n\t"
        "ldr x17, [x16, :lo12:stack_pointer]\n\t"
        "mov sp, x17\n\t"
        "adrp x16, before\n\t"
        "add x16, x16, :lo12:before\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
        "ldr q\\n, [x16, #256 + 16 * \\n]\n\t"
        ".endr\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n\t"
        "ldr x\\n, [x16, #8 * \\n]\n\t"
        ".endr\n\t"
        "ldr x16, [x16, #8 * 16]\n\t"
        "svc #0\n\t"
        "str x16, [sp, #-16]!\n\t"
        "adrp x16, after\n\t"
        "add x16, x16, :lo12:after\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,17,18,19,20,21,22,23,24,25,26,27,28,29,30\n\t"
        "str x\\n, [x16, #8 * \\n]\n\t"
        ".endr\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
        "str q\\n, [x16, #256 + 16 * \\n]\n\t"
        ".endr\n\t"
        "ldr x17, [sp], #16\n\t"
        "str x17, [x16, #8 * 16]\n\t"
        "adrp x16, own_stack_pointer\n\t"
        "ldr x17, [x16, :lo12:own_stack_pointer]\n\t"
        "mov sp, x17\n\t"
        "ldp x29, x30, [sp], #16\n\t"
        : : : "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
          "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
          "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12",
          "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
          "v27", "v28", "v29", "v30", "v31");
    CHECK(after.general[0] == 1, "read: %lld", (long long)after.general[0]);
    for (n = 1; n <= 30; n++)
        CHECK(before.general[n] == after.general[n], "x%zu: %#llx", n, (long long)after.general[n]);
    for (n = 0; n < 32; n++)
        CHECK(!memcmp(before.vector[n], after.vector[n], 16), "v%zu", n);
}
