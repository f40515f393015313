package chaos

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
)

// The targets that the report marks a figure against.
const (
	mostEarly = 250 // ms
	mostLate  = 20
	mostHeal  = 2000
)

const preamble = `# Faults

What clients of a service with herdgate see while Redis, the network or a process is in trouble. Written by ` + "`make chaos`" + `; do not edit.

Two processes on one Redis (a real one: single node, cluster of three, or Sentinel), each with a client of its own with go-redis' default options, behind a network that can
fail. Clients ask for hot keys, whose copies live for a second, and for cold ones in herds of six, three at each process. Every response is checked byte
for byte.

- **wrong**: responses that are not, whole, what one computation for that URL made. **5xx**: errors of ours other than the documented 503.
  Both must be 0, or the run fails. **503**: the documented ones.
- **extra**: computations beyond one per cold key while the fault lasted, and how many keys there were. Without a lock both processes compute: one extra for each.
- **p99**: added to that of the same load before the fault: while the fault begins (and the breaker opens; target 250 ms), and after that (target 20 ms).
  **idle**: of the latter, without the time in which a computation for that URL went on: what was waited for though nobody worked for it. Where a fault
  destroys what is stored, p99 is mostly the work that is done again, idle is not.
- **heal**: from the end of the fault until each process stores and the other has it (target 2 s; where a process died, the lifetime of its lock, here 1 s).
- Goroutines and heap are back to where they were after each run, or the run fails. A figure above its target has a **!**, and its reason below the table. The machine is shared: p99 is noisy.

`

func write(name string, rows []row) error {
	var b strings.Builder
	b.WriteString(preamble)
	group, above := "", []*fault(nil)
	reasons := func() {
		for _, f := range above {
			fmt.Fprintf(&b, "\n- **%s**: %s\n", f.name, cmp.Or(f.why, "no reason is known. If it is so on a quiet machine, too, it is a fault of ours."))
		}
		above = nil
	}
	mark := func(ms int64, most int64) string {
		if ms > most {
			return fmt.Sprintf("%d **!**", ms)
		}
		return fmt.Sprint(ms)
	}
	kinds, passed := map[string]bool{}, 0
	for _, r := range rows {
		kinds[r.fault.name] = true
		if r.ok {
			passed++
		}
	}
	fmt.Fprintf(&b, "%d kinds of fault, %d runs, %d passed.\n", len(kinds), len(rows), passed)
	for _, r := range rows {
		if r.fault.group != group {
			reasons()
			group = r.fault.group
			fmt.Fprintf(&b, "\n## %s\n\n| fault | adapter | answers | wrong | 5xx | 503 | extra | p99 ms, at first | p99 ms, then | idle | heal ms | |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n", group)
		}
		verdict := "passed"
		if !r.ok {
			verdict = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d of %d | %s | %s | %s | %s | %s |\n", r.fault.name, r.host, r.answers, r.wrong, r.own5xx, r.ours,
			r.extra, r.keys, mark(r.early.Milliseconds(), mostEarly), mark(r.late.Milliseconds(), mostLate), mark(r.lateIdle.Milliseconds(), mostLate), mark(r.heal.Milliseconds(), mostHeal), verdict)
		over := r.early.Milliseconds() > mostEarly || r.late.Milliseconds() > mostLate || r.heal.Milliseconds() > mostHeal
		if over && !slices.Contains(above, r.fault) {
			above = append(above, r.fault)
		}
	}
	reasons()
	return os.WriteFile(name, []byte(b.String()), 0o644)
}
