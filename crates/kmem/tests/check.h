/* What the tests in C have in common. */
#include <slabyard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With what a program ends that found nothing wrong: not by chance. */
#define PASSED 17

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
			abort();                                               \
		}                                                              \
	} while (0)
