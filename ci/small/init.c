// The first process of a small kernel (`ci/small-kernels`): tells the state of memory at the
// moments of one load, so that kernels with other allocators can be told apart.
//
// The load: processes that fork, some of which start this program anew; files of /proc and /sys
// that are read; pipes and files that stay open, and are closed. It names itself `@MOMENT` at each moment.
// With `rest=SECONDS` among the kernel's parameters it rests for so long before a last moment.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS 40
#define OPEN_PIPES 16
#define OPEN_FILES 60
#define MADE_FILES 180
#define READ_FILES 250

static char text[8192];
static int opened;

static void say(const char *format, ...)
{
	char line[512];
	va_list args;
	va_start(args, format);
	int n = vsnprintf(line, sizeof line, format, args);
	va_end(args);
	for (int at = 0, w; at < n && (w = write(1, line + at, n - at)) > 0; at += w)
		;
}

static int put(const char *path, const char *what)
{
	int fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	int n = write(fd, what, strlen(what));
	close(fd);
	return n;
}

static void print(const char *path)
{
	int fd = open(path, O_RDONLY), n;
	if (fd < 0)
		return;
	say("--- %s\n", path);
	while ((n = read(fd, text, sizeof text)) > 0)
		if (write(1, text, n) < 0)
			break;
	close(fd);
}

static void moment(const char *name)
{
	// The probe of ci/small/probe.c sees the name.
	char mark[16];
	snprintf(mark, sizeof mark, "@%s", name);
	prctl(PR_SET_NAME, mark);
	say("=== %s\n", name);
	print("/proc/buddyinfo");
	print("/proc/meminfo");
	print("/proc/vmstat");
	print("/proc/slabinfo");
	say("=== end\n");
}

static void read_files(const char *dir, int depth, int most)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	while (d && opened < most && (e = readdir(d))) {
		char path[512];
		struct stat st;
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] == '.' || lstat(path, &st) || strstr(path, "trac"))
			continue;
		if (S_ISDIR(st.st_mode)) {
			if (depth)
				read_files(path, depth - 1, most);
		} else if (S_ISREG(st.st_mode) && (st.st_mode & 0400) && !strstr(path, "kmsg") &&
			   !strstr(path, "kcore")) {
			int fd = open(path, O_RDONLY | O_NONBLOCK);
			if (fd < 0)
				continue;
			if (read(fd, text, 512) >= 0)
				opened++;
			close(fd);
		}
	}
	if (d)
		closedir(d);
}

static int child(void)
{
	for (int n = 0; n < 3; n++) {
		int ends[2];
		char c = 'x';
		if (pipe(ends) || write(ends[1], &c, 1) < 0)
			return 1;
		snprintf(text, sizeof text, "/proc/%d/status", getpid());
		int fd = open(text, O_RDONLY);
		if (fd >= 0 && read(fd, text, sizeof text) >= 0)
			close(fd);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static int pipes[OPEN_PIPES][2], files[OPEN_FILES];
	char path[64];

	if (argc > 1 && !strcmp(argv[1], "child"))
		return child();
	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mkdir("/tmp", 0755);
	int console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3 && console >= 0; fd++)
		dup2(console, fd);
	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("tmpfs", "/tmp", "tmpfs", 0, 0);
	moment("BOOTED");

	for (int f = 0; f < FORKS; f++) {
		if (!fork()) {
			if (f % 3 == 0)
				execl("/init", "init", "child", (char *)0);
			_exit(child());
		}
		if (f % 8 == 7)
			while (wait(0) > 0)
				;
	}
	while (wait(0) > 0)
		;
	read_files("/proc", 2, READ_FILES / 2);
	read_files("/sys", 5, READ_FILES);
	for (int p = 0; p < OPEN_PIPES; p++)
		if (pipe(pipes[p]) || write(pipes[p][1], "held", 4) < 0)
			say("a pipe failed\n");
	for (int f = 0; f < MADE_FILES; f++) {
		snprintf(path, sizeof path, "/tmp/made-%d", f);
		int it = open(path, O_RDWR | O_CREAT, 0600);
		if (it < 0 || write(it, "made", 4) < 0)
			say("a file failed\n");
		if (f < OPEN_FILES)
			files[f] = it;
		else
			close(it);
	}
	moment("HELD");

	for (int p = 0; p < OPEN_PIPES; p++) {
		close(pipes[p][0]);
		close(pipes[p][1]);
	}
	for (int f = 0; f < MADE_FILES; f++) {
		if (f < OPEN_FILES)
			close(files[f]);
		snprintf(path, sizeof path, "/tmp/made-%d", f);
		unlink(path);
	}
	usleep(100000);	// grace periods
	moment("RELEASED");
	// The first time takes the mark of recent use off names and files, the next ones free them.
	for (int n = 0; n < 3; n++)
		put("/proc/sys/vm/drop_caches", "3");
	usleep(100000);
	moment("DROPPED");
	if (getenv("rest")) {
		sleep(atoi(getenv("rest")));
		moment("RESTED");
	}

	// A pipe of 64 << k slots of 40 bytes is one block of 2^k pages: how many can be had at once?
	for (int k = 9; k >= 4; k--) {
		static int probe[16][2];
		int held = 0;
		while (held < 16 && !pipe(probe[held])) {
			if (fcntl(probe[held][1], F_SETPIPE_SZ, (64u << k) * 4096u) < 0) {
				close(probe[held][0]);
				close(probe[held][1]);
				break;
			}
			held++;
		}
		for (int p = 0; p < held; p++) {
			close(probe[p][0]);
			close(probe[p][1]);
		}
		say("PROBE order %d held %d\n", k, held);
	}
	say("DONE\n");
	sleep(1);
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
