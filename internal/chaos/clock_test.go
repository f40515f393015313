package chaos

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clockSource is a library that moves the clock of the process that loads it by what a file says, in µs.
const clockSource = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>

static volatile int64_t *offset;

__attribute__((constructor)) static void start(void) {
	int fd = open(getenv("CHAOS_CLOCK"), O_RDONLY);
	if (fd >= 0) offset = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	static int (*real)(struct timeval *, void *);
	if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
	int r = real(tv, tz);
	if (r == 0 && offset && offset != MAP_FAILED) {
		int64_t us = tv->tv_sec * 1000000LL + tv->tv_usec + *offset;
		tv->tv_sec = us / 1000000;
		tv->tv_usec = us % 1000000;
	}
	return r;
}
`

// A clock is that of the redis-servers that a test starts after it.
type clock struct{ file string }

func newClock(t *testing.T) *clock {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	c := &clock{file: filepath.Join(dir, "offset")}
	if err := os.WriteFile(source, []byte(clockSource), 0o600); err != nil {
		t.Fatal(err)
	}
	c.set(t, 0)
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("CHAOS_CLOCK", c.file)
	return c
}

// set moves the clock to that far from the right time, forth or back.
func (c *clock) set(t *testing.T, d time.Duration) {
	t.Helper()
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := binary.Write(f, binary.NativeEndian, d.Microseconds()); err != nil {
		t.Fatal(err)
	}
}
