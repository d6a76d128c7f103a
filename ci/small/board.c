// The first process of a board without a memory management unit (`ci/small-board`), and its commands.
//
// As the shell of the board of 2022, it is one image of 480 KiB, which the kernel loads into one block
// of order 7, and so is each command that it starts. It starts commands one after the other, then as
// many at a time as find their block, after a boot and after caches were dropped, and prints what the
// kernel tells of its memory at each moment. No library: this machine has none that its kernel loads.
typedef unsigned long word;

enum { OPENAT = 56, CLOSE, PIPE2 = 59, READ = 63, WRITE, EXIT = 93, NANOSLEEP = 101, REBOOT = 142,
       CLONE = 220, EXECVE, WAIT4 = 260, MOUNT = 40 };
enum { COMMANDS = 31, AT_ONCE = 16, HERE = -100 };

static long call(long number, long a, long b, long c, long d)
{
	register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b;
	register long a2 __asm__("a2") = c, a3 __asm__("a3") = d, a4 __asm__("a4") = 0;
	__asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4) : "memory");
	return a0;
}

// A process that becomes this program anew. Until it has, it runs on our stack: no word of C between.
static long spawn(const char *path, const char *const *argv)
{
	register long a7 __asm__("a7") = CLONE, a0 __asm__("a0") = 0x4000 | 0x100 | 17; // VFORK, VM, SIGCHLD
	register long a1 __asm__("a1") = 0, a2 __asm__("a2") = 0, a3 __asm__("a3") = 0, a4 __asm__("a4") = 0;
	__asm__ volatile("ecall\n\t"
			 "bnez a0, 1f\n\t"
			 "mv a0, %[path]\n\t"
			 "mv a1, %[argv]\n\t"
			 "li a2, 0\n\t"
			 "li a7, 221\n\t"
			 "ecall\n\t"
			 "li a0, 127\n\t"
			 "li a7, 93\n\t"
			 "ecall\n"
			 "1:"
			 : "+r"(a0), "+r"(a7), "+r"(a1), "+r"(a2)
			 : "r"(a3), "r"(a4), [path] "r"(path), [argv] "r"(argv)
			 : "memory");
	return a0;
}

static char text[4096];

static void say(const char *words)
{
	long len = 0;
	while (words[len])
		len++;
	call(WRITE, 1, (long)words, len, 0);
}

static void say_number(const char *words, long number)
{
	char digits[24];
	int at = sizeof digits;
	digits[--at] = 0;
	do
		digits[--at] = '0' + number % 10;
	while (number /= 10);
	say(words);
	say(digits + at);
}

static void print(const char *path)
{
	long fd = call(OPENAT, HERE, (long)path, 0, 0), n;
	if (fd < 0)
		return;
	say("--- ");
	say(path);
	say("\n");
	while ((n = call(READ, fd, (long)text, sizeof text, 0)) > 0)
		call(WRITE, 1, (long)text, n, 0);
	call(CLOSE, fd, 0, 0, 0);
}

static void rest(long ms)
{
	word time[2] = { 0, (word)ms * 1000000 };
	call(NANOSLEEP, (long)time, 0, 0, 0);
}

static void moment(const char *name)
{
	say("=== ");
	say(name);
	say("\n");
	print("/proc/buddyinfo");
	print("/proc/meminfo");
	print("/proc/slabinfo");
	say("=== end\n");
}

// What a command does: files and pipes, which cost slabs while it runs.
static void command(void)
{
	int ends[2];
	long fd = call(OPENAT, HERE, (long)"/proc/self/status", 0, 0);
	call(READ, fd, (long)text, sizeof text, 0);
	call(CLOSE, fd, 0, 0, 0);
	if (call(PIPE2, (long)ends, 0, 0, 0) == 0)
		call(WRITE, ends[1], (long)"x", 1, 0);
}

// Starts the program with a word; 0 if its image found no block.
static long start(const char *what)
{
	const char *argv[] = { "/init", what, 0 };
	long child = spawn("/init", argv);
	return child < 0 ? 0 : child;
}

static long ended_well(long child)
{
	int status = 0;
	return child && call(WAIT4, child, (long)&status, 0, 0) == child && status == 0;
}

static void one_after_the_other(void)
{
	long well = 0;
	for (int n = 0; n < COMMANDS; n++)
		well += ended_well(start("command"));
	say_number("COMMANDS started ", COMMANDS);
	say_number(" ended well ", well);
	say("\n");
}

// Each child holds its image until the pipe `go` is closed at our end, and tells by `ready` that it has it.
static void at_once(void)
{
	enum { O_NONBLOCK = 0x800, WNOHANG = 1 };
	long child, held = 0;
	int go[2], ready[2], status, found = 1;
	char c;
	// Children find their ends as 3, 4, 5 and 6: nothing else is open.
	if (call(PIPE2, (long)go, 0, 0, 0) || call(PIPE2, (long)ready, O_NONBLOCK, 0, 0)) {
		say("no pipe\n");
		return;
	}
	while (found && held < AT_ONCE) {
		child = start("hold");
		found = child != 0;
		// The kernel lets us go on before it looks for the image's block: until it is told or ended.
		while (found && call(READ, ready[0], (long)&c, 1, 0) != 1) {
			found = call(WAIT4, child, (long)&status, WNOHANG, 0) != child;
			rest(5);
		}
		held += found;
	}
	say_number("AT ONCE ", held);
	say(" images\n");
	moment("HELD");
	call(CLOSE, go[1], 0, 0, 0);
	while (call(WAIT4, -1, (long)&status, 0, 0) > 0)
		;
	call(CLOSE, go[0], 0, 0, 0);
	call(CLOSE, ready[0], 0, 0, 0);
	call(CLOSE, ready[1], 0, 0, 0);
}

static void hold(void)
{
	char c;
	command();
	call(CLOSE, 4, 0, 0, 0);
	call(WRITE, 6, (long)"r", 1, 0);
	call(READ, 3, (long)&c, 1, 0);
}

static void drop_caches(void)
{
	long fd = call(OPENAT, HERE, (long)"/proc/sys/vm/drop_caches", 1, 0);
	for (int n = 0; n < 3; n++)
		call(WRITE, fd, (long)"3", 1, 0);
	call(CLOSE, fd, 0, 0, 0);
	rest(100);
}

__attribute__((used)) static void begin(long *stack)
{
	const char **argv = (const char **)(stack + 1);
	if (stack[0] > 1) {
		argv[1][0] == 'h' ? hold() : command();
		call(EXIT, 0, 0, 0, 0);
	}
	call(MOUNT, (long)"proc", (long)"/proc", (long)"proc", 0);
	call(MOUNT, (long)"sysfs", (long)"/sys", (long)"sysfs", 0);
	rest(200);
	moment("BOOTED");
	one_after_the_other();
	moment("RELEASED");
	at_once();
	drop_caches();
	moment("DROPPED");
	at_once();
	say("DONE\n");
	rest(200);
	call(REBOOT, (int)0xfee1dead, 672274793, 0x4321fedc, 0);
	for (;;)
		rest(900);
}

__attribute__((naked, used)) void _start(void)
{
	__asm__("mv a0, sp\n\tandi sp, sp, -16\n\tj begin");
}
