package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	hotKeys    = 8
	keptKeys   = 4 // their copies outlive every run
	hotClients = 4 // per process
	herdSize   = 3 // requests per process and cold key
)

// A load is clients that ask both processes for hot keys, whose copies live for a second, and for cold ones, in herds.
type load struct {
	w     *world
	stop  chan struct{}
	wg    sync.WaitGroup
	phase atomic.Int32

	mu      sync.Mutex
	took    [phases][]time.Duration
	idle    [phases][]time.Duration // of that, while nobody computed what was asked for
	cold    [phases][]string
	answers int
	kept    [phases]int    // requests for kept keys
	hits    [phases]int    // and how many of them were hits
	why     map[string]int // what degraded answers said
	wrong   []string
	own5xx  int
	ours    int
}

// The phases of a run.
const (
	warming int32 = iota
	normal
	early // the fault has just begun
	late  // and is there for a while
	healing
	phases
)

var seq atomic.Int64

func begin(w *world) *load {
	l := &load{w: w, stop: make(chan struct{})}
	pace := 1 + w.fault.body>>16 // large bodies come more slowly
	for p := range processes {
		for range hotClients {
			l.wg.Go(func() {
				for l.pause(time.Duration(pace*(4+rand.IntN(4))) * time.Millisecond) {
					if rand.IntN(4) == 0 {
						l.ask(p, fmt.Sprintf("/kept/%d", rand.IntN(keptKeys)))
					} else {
						l.ask(p, fmt.Sprintf("/hot/%d", rand.IntN(hotKeys)))
					}
				}
			})
		}
	}
	l.wg.Go(func() {
		var herds sync.WaitGroup
		defer herds.Wait()
		for l.pause(time.Duration(pace*30) * time.Millisecond) {
			target := fmt.Sprintf("/cold/%d", seq.Add(1))
			phase := l.phase.Load()
			l.mu.Lock()
			l.cold[phase] = append(l.cold[phase], target)
			l.mu.Unlock()
			for p := range processes {
				for range herdSize {
					herds.Go(func() { l.ask(p, target) })
				}
			}
		}
	})
	return l
}

func (l *load) pause(d time.Duration) bool {
	select {
	case <-l.stop:
		return false
	case <-time.After(d):
		return true
	}
}

func (l *load) ask(process int, target string) {
	phase := l.phase.Load()
	l.note(phase, target, l.w.get(context.Background(), process, target))
}

func (l *load) note(phase int32, target string, a answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers++
	l.took[phase] = append(l.took[phase], a.took)
	l.idle[phase] = append(l.idle[phase], a.idle)
	if strings.HasPrefix(target, "/kept") {
		l.kept[phase]++
		if strings.HasPrefix(a.status, "herdgate; hit") {
			l.hits[phase]++
		}
	}
	switch {
	case a.wrong != "":
		l.wrong = append(l.wrong, a.wrong)
	case a.own5xx:
		l.own5xx++
	case a.ours:
		l.ours++
		if l.why == nil {
			l.why = map[string]int{}
		}
		l.why[a.status]++
	}
}

func (l *load) end() {
	close(l.stop)
	l.wg.Wait()
}

// added returns by how much a 99th percentile has grown since the normal phase.
func (l *load) added(times *[phases][]time.Duration, phase int32) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	p99 := func(phase int32) time.Duration {
		sorted := slices.Sorted(slices.Values(times[phase]))
		if len(sorted) == 0 {
			return 0
		}
		return sorted[len(sorted)*99/100]
	}
	return max(0, p99(phase)-p99(normal))
}

// extra returns how many computations more than one the cold keys of a phase cost.
func (l *load) extra(of ...int32) (extra, keys int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, phase := range of {
		for _, target := range l.cold[phase] {
			keys++
			extra += max(0, l.w.origin.computed(target)-1)
		}
	}
	return extra, keys
}
