package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/conformance"
)

type shape int

const (
	single shape = iota
	cluster
	sentinel
)

// A fault is one thing that goes wrong.
type fault struct {
	group, name string
	slow        bool // only at length, over one adapter
	shape       shape
	args        []string             // of the server
	client      func(*redis.Options) // a change of the clients
	body        int                  // size of responses
	clocked     bool                 // the clock of Redis can be set
	on          func(w *world)       // makes it
	off         func(w *world)       // ends it; nil: it is over when calm
	hits        bool                 // Redis still reads: hits must go on
	why         string               // figures are above their targets
	custom      func(t *testing.T, host conformance.Host, r *row)
}

// row is a fault's line in the report.
type row struct {
	fault *fault
	host  string
	ok    bool

	answers, wrong, own5xx, ours int
	extra, keys                  int
	early, late                  time.Duration // added p99
	lateIdle                     time.Duration // of what was not spent computing
	heal                         time.Duration
	goroutines                   int
	heap                         int64
}

func (r *row) String() string {
	return fmt.Sprintf("%-34s %-8s %6d answers, %d wrong, %d own 5xx, %3d degraded, %3d extra of %3d, p99 %+5d ms then %+4d ms (idle %+4d ms), heals in %4d ms",
		r.fault.name, r.host, r.answers, r.wrong, r.own5xx, r.ours, r.extra, r.keys, r.early.Milliseconds(), r.late.Milliseconds(), r.lateIdle.Milliseconds(), r.heal.Milliseconds())
}

// run is normal traffic, the fault, and the time after.
func (f *fault) run(t *testing.T, host conformance.Host, r *row) {
	if f.custom != nil {
		f.custom(t, host, r)
		return
	}
	w := newWorld(t, f, host)
	l := begin(w)
	for i := range processes { // connections are made
		w.healed(i, 10*time.Second)
		for key := range keptKeys {
			w.get(t.Context(), i, fmt.Sprintf("/kept/%d", key))
		}
	}
	length := 200 * time.Millisecond
	if *all {
		length = 700 * time.Millisecond
	}
	l.phase.Store(normal)
	<-time.After(length)
	l.phase.Store(early)
	f.on(w)
	<-time.After(max(length, 400*time.Millisecond))
	l.phase.Store(late)
	<-time.After(2 * length)
	for i := range processes {
		if f.hits && f.shape != cluster { // one of its nodes may be the one that does not answer
			w.hit(i, 10*time.Second)
		}
	}
	l.phase.Store(healing)
	w.calm()
	if f.off != nil {
		f.off(w)
	}
	over := time.Now()
	for i := range processes {
		w.healed(i, 15*time.Second)
	}
	r.heal = time.Since(over)
	l.end()

	r.answers, r.wrong, r.own5xx, r.ours = l.answers, len(l.wrong), l.own5xx, l.ours
	r.extra, r.keys = l.extra(early, late)
	r.early, r.late, r.lateIdle = l.added(&l.took, early), l.added(&l.took, late), l.added(&l.idle, late)
	if r.wrong > 0 {
		t.Errorf("%d of %d answers were wrong: %s", r.wrong, r.answers, strings.Join(l.wrong[:min(3, r.wrong)], "\n"))
	}
	if r.own5xx > 0 {
		t.Errorf("%d errors of our own", r.own5xx)
	}
	if r.ours > 0 {
		t.Logf("degraded: %v", l.why)
	}
	if *all && f.hits && f.shape != cluster && l.hits[late] < l.kept[late]/2 { // the short form asks too few
		t.Errorf("%d hits in %d requests, though Redis reads", l.hits[late], l.kept[late])
	}
	for i, gate := range w.gates {
		for _, b := range gate.Stats().Breakers {
			if b.State != "closed" && f.shape == single {
				t.Errorf("process %d: %s of %s are %s in the end", i, b.Calls, b.Node, b.State)
			}
		}
	}
}

// hit waits until a process answers from Redis, which reads.
func (w *world) hit(process int, within time.Duration) {
	w.t.Helper()
	for deadline := time.Now().Add(within); ; <-time.After(5 * time.Millisecond) {
		a := w.get(context.Background(), process, "/kept/0")
		if strings.HasPrefix(a.status, "herdgate; hit") {
			return
		}
		if time.Now().After(deadline) {
			w.t.Errorf("process %d: no hit for %v, though Redis reads: %s", process, within, a.status)
			return
		}
	}
}

// healed waits until a process stores what is missing, and the other one has it.
func (w *world) healed(process int, within time.Duration) {
	w.t.Helper()
	ctx := context.Background()
	for deadline := time.Now().Add(within); ; <-time.After(5 * time.Millisecond) {
		target := fmt.Sprintf("/heal/%d", seq.Add(1))
		w.get(ctx, process, target)
		if b := w.get(ctx, (process+1)%processes, target); strings.HasPrefix(b.status, "herdgate; hit") {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("process %d has not healed after %v: %+v", process, within, w.gates[process].Stats())
		}
	}
}
