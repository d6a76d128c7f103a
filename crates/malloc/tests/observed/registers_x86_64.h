/* A read of one byte that looks at the registers before and after, on x86-64. */
#include <sys/mman.h>

/* Values that a call keeps: the general registers but rax, rcx and r11, xmm0 to xmm15, with AVX
 * their upper halves, and the red zone; the stack pointer is 256 bytes above a page that faults. */
struct kept {
    uint64_t general[12];
    uint64_t vector[16][4];
    uint64_t below[16];
    uint64_t result;
};

/* Named by the assembly. */
__attribute__((used)) static struct kept before, after;
__attribute__((used)) static uint64_t stack_pointer;

static void read_with_registers(int fd)
{
    int has_avx = __builtin_cpu_supports("avx");
    unsigned char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t state = 88172645463325252u;
    size_t n;

    if (pages == MAP_FAILED || mprotect(pages, 4096, PROT_NONE))
        abort();
    for (n = 0; n < sizeof before / 8; n++)
        ((uint64_t *)&before)[n] = next_random(&state);
    /* rdi, rsi, rdx: the call's own. */
    before.general[0] = fd;
    before.general[1] = (uintptr_t)pages + 8000;
    before.general[2] = 1;
    stack_pointer = (uintptr_t)pages + 4096 + 256;
    asm volatile(
        "pushfq\n\t"
        "push %%rbp\n\t"
        "push %%rbx\n\t"
        "lea before(%%rip), %%rax\n\t"
        "test %[avx], %[avx]\n\t"
        "jz 1f\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "vmovdqu 96+32*\\n(%%rax), %%ymm\\n\n\t"
        ".endr\n\t"
        "jmp 2f\n"
        "1:\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "movdqu 96+32*\\n(%%rax), %%xmm\\n\n\t"
        ".endr\n"
        "2:\n\t"
        "mov %%rsp, %%rcx\n\t"
        "mov stack_pointer(%%rip), %%rsp\n\t"
        "push %%rcx\n\t" /* the own one */
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "mov 608+8*\\n(%%rax), %%rcx\n\t"
        "mov %%rcx, -128+8*\\n(%%rsp)\n\t"
        ".endr\n\t"
        "mov 0(%%rax), %%rdi\n\t"
        "mov 8(%%rax), %%rsi\n\t"
        "mov 16(%%rax), %%rdx\n\t"
        "mov 24(%%rax), %%rbx\n\t"
        "mov 32(%%rax), %%rbp\n\t"
        "mov 40(%%rax), %%r8\n\t"
        "mov 48(%%rax), %%r9\n\t"
        "mov 56(%%rax), %%r10\n\t"
        "mov 64(%%rax), %%r12\n\t"
        "mov 72(%%rax), %%r13\n\t"
        "mov 80(%%rax), %%r14\n\t"
        "mov 88(%%rax), %%r15\n\t"
        "xor %%eax, %%eax\n\t"
        "syscall\n\t"
        "mov %%rax, after+736(%%rip)\n\t"
        "lea after(%%rip), %%rax\n\t"
        "mov %%rdi, 0(%%rax)\n\t"
        "mov %%rsi, 8(%%rax)\n\t"
        "mov %%rdx, 16(%%rax)\n\t"
        "mov %%rbx, 24(%%rax)\n\t"
        "mov %%rbp, 32(%%rax)\n\t"
        "mov %%r8, 40(%%rax)\n\t"
        "mov %%r9, 48(%%rax)\n\t"
        "mov %%r10, 56(%%rax)\n\t"
        "mov %%r12, 64(%%rax)\n\t"
        "mov %%r13, 72(%%rax)\n\t"
        "mov %%r14, 80(%%rax)\n\t"
        "mov %%r15, 88(%%rax)\n\t"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
        "mov -128+8*\\n(%%rsp), %%rcx\n\t"
        "mov %%rcx, 608+8*\\n(%%rax)\n\t"
        ".endr\n\t"
        "pop %%rsp\n\t"
        "pop %%rbx\n\t"
        "pop %%rbp\n\t"
        "popfq\n\t"
        : : [avx] "r"((uint64_t)has_avx)
        : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
          "memory", "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
          "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
    if (has_avx)
        asm volatile("lea after(%%rip), %%rax\n\t"
                     ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "vmovdqu %%ymm\\n, 96+32*\\n(%%rax)\n\t"
                     ".endr\n\tvzeroupper\n\t" : : : "rax", "memory");
    else
        asm volatile("lea after(%%rip), %%rax\n\t"
                     ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n\t"
                     "movdqu %%xmm\\n, 96+32*\\n(%%rax)\n\t"
                     ".endr\n\t" : : : "rax", "memory");
    CHECK(after.result == 1, "read: %lld", (long long)after.result);
    for (n = 0; n < 12; n++)
        CHECK(before.general[n] == after.general[n], "register %zu: %#llx", n,
              (long long)after.general[n]);
    for (n = 0; n < 16; n++)
        CHECK(!memcmp(before.vector[n], after.vector[n], has_avx ? 32 : 16), "vector %zu", n);
    CHECK(!memcmp(before.below, after.below, sizeof before.below), "the red zone");
}
