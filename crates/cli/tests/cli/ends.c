/* A program that makes itself known and ends as it is told:
 *
 *	ends MARK END [ARG]...
 *
 * MARK is how many objects of 440 bytes it holds at its end. The exit code is 7
 * where the end has one. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void **held;
static char **rest;

static void hold(int mark)
{
	int n;

	held = calloc(mark + 1, sizeof(*held));
	for (n = 0; n < mark; n++)
		memset(held[n] = malloc(440), 1, 440);
}

static void *busy(void *arg)
{
	uintptr_t n;

	for (n = (uintptr_t)arg;; n++)
		free(malloc(n * 64 % 200000));
	return NULL;
}

static void threads(void)
{
	pthread_t thread;
	uintptr_t n;

	for (n = 0; n < 3; n++)
		if (pthread_create(&thread, NULL, busy, (void *)n))
			exit(90);
	usleep(2000);
}

static void by_exit(void) { exit(7); }
static void by_underscore(void) { _exit(7); }
static void by_capital(void) { _Exit(7); }
static void by_quick_exit(void) { quick_exit(7); }
static void by_call(void) { syscall(SYS_exit_group, 7); }
static void by_abort(void) { abort(); }
static void by_kill(void) { kill(getpid(), SIGKILL); }
static void by_segv(void) { *(volatile int *)8 = 0; }

static void in_handler(void) { _exit(7); }
static void *in_thread(void *arg)
{
	((void (*)(void))arg)();
	return NULL;
}
static void of_thread(void (*end)(void))
{
	pthread_t thread;

	pthread_create(&thread, NULL, in_thread, (void *)end);
	pthread_join(thread, NULL);
}
static void thread_exit(void) { of_thread(by_exit); }
static void thread_underscore(void) { of_thread(by_underscore); }
static void threads_exit(void) { threads(), exit(7); }
static void threads_underscore(void) { threads(), _exit(7); }
static void threads_quick_exit(void) { threads(), quick_exit(7); }

/* All threads at once. */
static void all_underscore(void)
{
	pthread_t thread;
	int n;

	for (n = 0; n < 8; n++)
		pthread_create(&thread, NULL, in_thread, (void *)by_underscore);
	_exit(7);
}

static void *after_main(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	return NULL;
}
/* The last thread ends, and nobody called exit: that is code 0. */
static void main_first(void)
{
	static pthread_t self;
	pthread_t thread;

	self = pthread_self();
	pthread_create(&thread, NULL, after_main, &self);
	pthread_exit(NULL);
}

static void child_at_once(void)
{
	_exit(7);
}
static void at_exit_underscore(void)
{
	atexit(child_at_once);
	exit(1);
}

/* Children of all kinds, which end before and hold something else. */
static void with_children(void (*end)(void))
{
	char *missing[] = { "/nonexistent", NULL };
	char *self[] = { "/proc/self/exe", "9", "_exit", NULL };
	void (*ends[])(void) = { by_exit, by_underscore, by_quick_exit, by_call };
	unsigned n;
	pid_t pid;

	for (n = 0; n < 4; n++) {
		if (fork() == 0) {
			hold(50);
			ends[n]();
		}
		wait(NULL);
	}
	if ((pid = vfork()) == 0) {
		execve(missing[0], missing, environ);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	for (n = 0; n < 2; n++) {
		self[2] = n ? "exit" : "_exit";
		if ((pid = vfork()) == 0) {
			execve(self[0], self, environ);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
	}
	/* One whose parent is ours: only its id tells it from this process. */
	if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) {
		execve(self[0], self, environ);
		_exit(1);
	}
	usleep(50000);
	end();
}
static void children_exit(void) { with_children(by_exit); }
static void children_underscore(void) { with_children(by_underscore); }

/* The child goes on for a while and ends last. */
static void daemon_exit(void)
{
	if (fork() == 0) {
		setsid();
		close(0), close(1), close(2);
		hold(50);
		usleep(100000);
		exit(0);
	}
	exit(7);
}
static void daemon_underscore(void)
{
	if (fork() == 0) {
		setsid();
		close(0), close(1), close(2);
		hold(50);
		usleep(100000);
		_exit(0);
	}
	_exit(7);
}

static void close_all(void)
{
	int fd;

	for (fd = 0; fd < 1024; fd++)
		close(fd);
}
static void closed_exit(void) { close_all(), exit(7); }
static void closed_underscore(void) { close_all(), _exit(7); }

static void no_file(void)
{
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	exit(7);
}
static void no_room(void)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_FSIZE, &none);
	exit(7);
}

static void on_signal(int signal)
{
	(void)signal;
	in_handler();
}
/* A handler on a small stack of its own, as those for crashes are. */
static void small_stack(void)
{
	static char stack[8192];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	sigaltstack(&alternative, NULL);
	sigaction(SIGSEGV, &action, NULL);
	by_segv();
}
/* A handler that interrupts malloc in the middle, whatever it does there. */
static void in_malloc(void)
{
	struct itimerval soon = { { 0, 0 }, { 0, 3000 } };

	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &soon, NULL);
	busy(NULL);
}
/* A thread that holds up every slow path: a handler stops it in one. */
static void stop_here(int signal)
{
	(void)signal;
	for (;;)
		pause();
}
static void stopped_in_malloc(void)
{
	pthread_t thread;

	signal(SIGUSR1, stop_here);
	pthread_create(&thread, NULL, busy, (void *)1);
	usleep(3000);
	pthread_kill(thread, SIGUSR1);
	usleep(3000);
	_exit(7);
}
/* What is left of the heap says nothing true. */
static void damaged(void)
{
	memset(held[0], 0xff, 8000);
	_exit(7);
}
static void unreadable(void)
{
	extern int prctl(int, ...);

	prctl(4 /* PR_SET_DUMPABLE */, 0L, 0L, 0L, 0L);
	_exit(7);
}

static void by_exec(void)
{
	execvp(rest[0], rest);
	_exit(7);
}
static void exec_from_thread(void) { threads(), of_thread(by_exec); }

static const struct {
	const char *name;
	void (*end)(void);
} ends[] = {
	{ "exit", by_exit },
	{ "_exit", by_underscore },
	{ "_Exit", by_capital },
	{ "quick_exit", by_quick_exit },
	{ "call", by_call },
	{ "abort", by_abort },
	{ "kill", by_kill },
	{ "segv", by_segv },
	{ "thread-exit", thread_exit },
	{ "thread-_exit", thread_underscore },
	{ "threads-exit", threads_exit },
	{ "threads-_exit", threads_underscore },
	{ "threads-quick_exit", threads_quick_exit },
	{ "all-_exit", all_underscore },
	{ "main-first", main_first },
	{ "atexit-_exit", at_exit_underscore },
	{ "children-exit", children_exit },
	{ "children-_exit", children_underscore },
	{ "daemon-exit", daemon_exit },
	{ "daemon-_exit", daemon_underscore },
	{ "closed-exit", closed_exit },
	{ "closed-_exit", closed_underscore },
	{ "no-file", no_file },
	{ "no-room", no_room },
	{ "small-stack", small_stack },
	{ "in-malloc", in_malloc },
	{ "stopped-in-malloc", stopped_in_malloc },
	{ "damaged", damaged },
	{ "unreadable", unreadable },
	{ "exec", by_exec },
	{ "exec-from-thread", exec_from_thread },
};

int main(int argc, char **argv)
{
	size_t n;

	if (argc < 3)
		return 99;
	hold(atoi(argv[1]));
	rest = argv + 3;
	for (n = 0; n < sizeof(ends) / sizeof(ends[0]); n++)
		if (strcmp(argv[2], ends[n].name) == 0)
			ends[n].end();
	return 98 * !!strcmp(argv[2], "return");
}
