package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what one adapter did. Its JSON form is a contract.
type result struct {
	Adapter string  `json:"adapter"`
	Procs   int     `json:"procs"`
	Clients int     `json:"clients"`
	WorkMS  float64 `json:"work_ms"`
	Phases  []phase `json:"phases"`

	embedded bool
	faults   []string      // why the exit code is 1
	copies   int           // how many got the stale copy
	slowest  time.Duration // in the server, of those
}

type phase struct {
	Name          string         `json:"name"`
	Computations  int            `json:"computations"`
	RedisCommands int64          `json:"redis_commands"`
	Statuses      map[string]int `json:"statuses"`
	P50           float64        `json:"p50_ms"`
	P99           float64        `json:"p99_ms"`
	Max           float64        `json:"max_ms"`

	events int
}

// summarize counts statuses ("error" where there was no response) and times.
func summarize(name string, answers []answer) phase {
	p := phase{Name: name, Statuses: make(map[string]int)}
	times := make([]time.Duration, len(answers))
	for i, a := range answers {
		times[i] = a.took
		status := strconv.Itoa(a.status)
		if a.err != nil {
			status = "error"
		}
		p.Statuses[status]++
	}
	slices.Sort(times)
	p.P50, p.P99, p.Max = percentile(times, 0.50), percentile(times, 0.99), percentile(times, 1)
	return p
}

// percentile of sorted times, nearest rank, in ms.
func percentile(sorted []time.Duration, q float64) float64 {
	return millis(sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)])
}

// millis rounds to a hundredth of a millisecond.
func millis(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Millisecond)*100) / 100
}

// add takes a phase in and judges it. old is the body of the stale copy.
func (r *result) add(p phase, answers []answer, old string) {
	r.Phases = append(r.Phases, p)
	for _, a := range answers {
		if a.err != nil {
			r.faults = append(r.faults, fmt.Sprintf("%s: %d requests got no response, such as: %v", p.Name, p.Statuses["error"], a.err))
			break
		}
	}
	switch p.Name {
	case "cold":
		if p.Computations != 1 {
			r.faults = append(r.faults, fmt.Sprintf("the cold key cost %d computations", p.Computations))
		}
	case "stale":
		for _, a := range answers {
			if a.body == old {
				r.copies, r.slowest = r.copies+1, max(r.slowest, a.server)
			}
		}
	}
}

func (r *result) table(w io.Writer) error {
	redis := "real"
	if r.embedded {
		redis = "embedded"
	}
	fmt.Fprintf(w, "\n%s: %d clients, %d processes, %v ms of work, %s Redis\n", r.Adapter, r.Clients, r.Procs, r.WorkMS, redis)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "phase\tcomputations\tRedis commands\tstatuses\tp50 ms\tp99 ms\tmax ms\t")
	for _, p := range r.Phases {
		var statuses []string
		for _, status := range slices.Sorted(maps.Keys(p.Statuses)) {
			statuses = append(statuses, fmt.Sprintf("%d x %s", p.Statuses[status], status))
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%.1f\t%.1f\t%.1f\t\n", p.Name, p.Computations, p.RedisCommands, strings.Join(statuses, ", "), p.P50, p.P99, p.Max)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "stale: %d of %d got the old copy while one request refreshed it; the slowest of them was in the server for %.1f ms\n",
		r.copies, r.Clients, millis(r.slowest))
	return err
}

// remarks explain phases in which not everything went as it should, for stderr.
func (r *result) remarks() (lines []string) {
	for _, p := range r.Phases {
		if p.events > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d times a lock could not be had or kept, as when Redis takes more than 100 ms: each may cost a computation", p.Name, p.events))
		}
	}
	return lines
}

// progress says on stderr what is going on: on a terminal in one line that changes, else in lines of its own, which
// then are few.
type progress struct {
	w        io.Writer
	terminal bool
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if !ok {
		return &progress{w: w}
	}
	info, err := f.Stat()
	return &progress{w: w, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// step announces something new.
func (p *progress) step(format string, args ...any) {
	if p.terminal {
		p.live(format, args...)
		return
	}
	fmt.Fprintf(p.w, format+"\n", args...)
}

// live replaces what is shown, where that is possible.
func (p *progress) live(format string, args ...any) {
	if p.terminal {
		fmt.Fprintf(p.w, "\r\x1b[K"+format, args...)
	}
}

func (p *progress) clear() { p.live("") }
