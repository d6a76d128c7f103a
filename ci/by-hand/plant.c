/*
 * Plants growth of a kernel's slab memory, and goes on for so many seconds:
 *   plant names SECONDS DIR      looks up names that do not exist, some thousand a second
 *   plant semaphores SECONDS     makes a set of semaphores for each 100 messages, and removes none
 *   plant messages SECONDS       sends and receives messages
 *   plant inodes SECONDS DIR     makes files
 *   plant timers SECONDS         makes timers, whose cache is merged with others
 * Each does little at a time, and sleeps between.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct message {
	long type;
	char text[200];
};

static void messages(int queue, int count)
{
	struct message message = { .type = 1 };
	for (int i = 0; i < count; i++) {
		msgsnd(queue, &message, sizeof(message.text), IPC_NOWAIT);
		msgrcv(queue, &message, sizeof(message.text), 0, IPC_NOWAIT);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 0);
	int queue = msgget(IPC_PRIVATE, 0600);
	long made = 0;
	char path[512];
	struct rlimit most = { 1 << 20, 1 << 20 };

	setrlimit(RLIMIT_SIGPENDING, &most);
	while (time(NULL) < end) {
		int at_once = strcmp(what, "names") ? 40 : 160;
		for (int i = 0; i < at_once; i++, made++) {
			snprintf(path, sizeof(path), "%s/planted-%d-%ld", argc > 3 ? argv[3] : "/", getpid(), made);
			if (!strcmp(what, "names")) {
				struct stat found;
				stat(path, &found);
			} else if (!strcmp(what, "semaphores")) {
				messages(queue, 100);
				semget(IPC_PRIVATE, 8, 0600);
			} else if (!strcmp(what, "messages")) {
				messages(queue, 100);
			} else if (!strcmp(what, "inodes")) {
				close(open(path, O_CREAT | O_WRONLY, 0600));
			} else if (!strcmp(what, "timers")) {
				struct sigevent none = { .sigev_notify = SIGEV_NONE };
				timer_t timer;
				timer_create(CLOCK_MONOTONIC, &none, &timer);
			} else {
				fprintf(stderr, "plant names|semaphores|messages|inodes|timers SECONDS [DIR]\n");
				return 2;
			}
		}
		usleep(5000);
	}
	msgctl(queue, IPC_RMID, NULL);
	return 0;
}
