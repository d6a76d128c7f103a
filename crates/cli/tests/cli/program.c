/* Runs a shell script as its child and ends with exit(), so that the report
 * is written: some shells end by _exit(). With a second argument it closes
 * its standard error first. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int status;

	if (argc > 2)
		close(2);
	status = system(argv[1]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
