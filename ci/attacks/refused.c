/*
 * Runs a program that may not make a system call from its start:
 *
 *   refused CALL:HOW COMMAND...
 */
#include "refuse.h"

int main(int argc, char **argv)
{
    if (argc < 3)
        usage("refused CALL:HOW COMMAND...");
    refuse(argv[1]);
    execvp(argv[2], argv + 2);
    not_possible(argv[2]);
}
