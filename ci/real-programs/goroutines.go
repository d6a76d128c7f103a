// Go with cgo: goroutines that take and free C memory, on threads that come
// and go; C threads that call back into Go; children started beside them.
package main

/*
#cgo LDFLAGS: -lpthread
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

extern uint64_t fromGo(uint64_t n);

static unsigned char *taken(size_t size, int value) {
	unsigned char *p = size % 3 ? malloc(size) : calloc(1, size);
	if (size % 3 == 0)
		for (size_t n = 0; n < size; n++)
			if (p[n]) abort();
	memset(p, value, size);
	return p;
}

static unsigned char *grown(unsigned char *p, size_t size, size_t more, int value) {
	p = realloc(p, size + more);
	memset(p + size, value, more);
	return p;
}

static uint64_t sum(const unsigned char *p, size_t size) {
	uint64_t all = 0;
	for (size_t n = 0; n < size; n++) all = all * 31 + p[n];
	return all;
}

static void *body(void *arg) {
	uint64_t all = 0;
	for (int n = 0; n < 200; n++) {
		uint64_t *p = malloc(64 + n * 8);
		*p = fromGo((uintptr_t)arg + n);
		all += *p;
		free(p);
	}
	return (void *)(uintptr_t)all;
}

static uint64_t threads(int number) {
	pthread_t all[16];
	uint64_t result = 0;
	for (int n = 0; n < number; n++) pthread_create(&all[n], 0, body, (void *)(uintptr_t)n);
	for (int n = 0; n < number; n++) {
		void *one;
		pthread_join(all[n], &one);
		result += (uintptr_t)one;
	}
	return result;
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os/exec"
	"os/user"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

//export fromGo
func fromGo(n C.uint64_t) C.uint64_t {
	text := strings.Repeat("x", int(n)%50)
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	return C.uint64_t(C.strlen(c)) + n
}

type block struct {
	at   *C.uchar
	size C.size_t
}

// Takes blocks, gives some to the next goroutine to free, and sums all.
func work(seed int, in <-chan block, out chan<- block) (total uint64) {
	var kept [32]block
	for n := 0; n < 3000; n++ {
		size := C.size_t((n*7919+seed*31)%5000 + 1)
		if n%200 == 0 {
			size *= 100
		}
		b := block{C.taken(size, C.int(n+seed)), size}
		if n%4 == 0 {
			b.at = C.grown(b.at, b.size, 300, C.int(n))
			b.size += 300
		}
		old := kept[n%32]
		kept[n%32] = b
		if old.at != nil {
			out <- old
			got := <-in
			total += uint64(C.sum(got.at, got.size))
			C.free(unsafe.Pointer(got.at))
		}
	}
	for _, b := range kept {
		total += uint64(C.sum(b.at, b.size))
		C.free(unsafe.Pointer(b.at))
	}
	return
}

func main() {
	const workers = 8
	var all sync.WaitGroup
	var totals [workers]uint64
	ring := [workers]chan block{}
	for n := range ring {
		ring[n] = make(chan block, 4)
	}
	for n := 0; n < workers; n++ {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			// A goroutine that ends while locked ends its thread too.
			if n%2 == 0 {
				runtime.LockOSThread()
			}
			totals[n] = work(n, ring[n], ring[(n+1)%workers])
		}(n)
	}
	var told [20]string
	for n := range told {
		cat := exec.Command("sed", "s/a/b/g")
		cat.Stdin = bytes.NewReader(bytes.Repeat([]byte("banana\n"), n*100))
		out, err := cat.Output()
		told[n] = fmt.Sprint(len(out), bytes.Count(out, []byte("bbnbnb")), err)
		runtime.GC()
	}
	fmt.Println("called back", C.threads(12))
	// Threads end here by the hundred.
	var brief sync.WaitGroup
	var lock sync.Mutex
	var lengths uint64
	for n := 0; n < 300; n++ {
		brief.Add(1)
		go func(n int) {
			defer brief.Done()
			runtime.LockOSThread()
			p := C.taken(C.size_t(n+1), C.int(n))
			s := uint64(C.sum(p, C.size_t(n+1)))
			C.free(unsafe.Pointer(p))
			lock.Lock()
			lengths += s
			lock.Unlock()
		}(n)
	}
	brief.Wait()
	all.Wait()
	var total uint64
	for _, one := range totals {
		total += one
	}
	// The C library's name service, by cgo.
	root, err := user.LookupId("0")
	fmt.Println("children", told)
	fmt.Println("sums", total, lengths)
	fmt.Println("user", root.Username, err)
}
