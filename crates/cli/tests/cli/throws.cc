/* What unwinds the stack through an allocation: exceptions of operator new and of its handler, and
 * threads that end in the handler. Prints how often each arrived; 0 if all did. */
#include <new>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static volatile size_t all = SIZE_MAX / 2;

struct other {};
static void throws_other() { throw other(); }
static void ends_the_thread() { pthread_exit((void *)7); }

template <class Call> static int thrown(Call call)
{
	int bad = 0;
	for (int n = 0; n < 5; n++) {
		try {
			free(call());
		} catch (std::bad_alloc &) {
			bad++;
		} catch (other &) {
			bad += 100;
		}
	}
	return bad;
}

static void *ends(void *)
{
	free(::operator new(all));
	return NULL;
}

/* Cancelled from its begin, it calls nothing in which POSIX lets a thread end until it is done. */
static void *is_cancelled(void *)
{
	pthread_cancel(pthread_self());
	for (int n = 0; n < 300000; n++) {
		void *volatile p = malloc(n % 500 + 1);
		free(p);
	}
	pthread_testcancel();
	return NULL;
}

static void *end_of(void *(*body)(void *))
{
	pthread_t thread;
	void *end = NULL;
	if (pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, &end))
		return NULL;
	return end;
}

int main()
{
	int bad = 0;
	bad += thrown([] { return ::operator new(all); }) != 5;
	bad += thrown([] { return ::operator new[](all); }) != 5;
	bad += thrown([] { return ::operator new(all, std::align_val_t(64)); }) != 5;
	bad += thrown([] { return ::operator new[](all, std::align_val_t(64)); }) != 5;
	bad += thrown([] { return ::operator new(all, std::nothrow); }) != 0;
	std::set_new_handler(throws_other);
	bad += thrown([] { return ::operator new(all); }) != 500;
	std::set_new_handler(ends_the_thread);
	bad += end_of(ends) != (void *)7;
	bad += end_of(is_cancelled) != PTHREAD_CANCELED;
	printf("%d\n", bad);
	return bad;
}
