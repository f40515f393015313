package chaos

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"

	"go.uber.org/goleak"

	"github.com/herdgate/herdgate/internal/conformance"
)

var (
	all    = flag.Bool("all", false, "all faults, over all adapters, at length")
	report = flag.String("report", "", "write the table to this file")
)

func TestMain(m *testing.M) {
	if raw := os.Getenv(childEnv); raw != "" {
		if err := child(raw); err != nil {
			fmt.Println("child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m,
		// fasthttp keeps one clock for all servers of the process, for the Date header.
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction(retired),
	)
}

// The faults are many, each has a name of its own, most of them are tried by every `make test`, and those that docs/promises.md
// speaks of are among them.
func TestKinds(t *testing.T) {
	kinds, fast := map[string]bool{}, 0
	for _, f := range faults() {
		if kinds[f.name] {
			t.Errorf("two faults are called %q", f.name)
		}
		kinds[f.name] = true
		if !f.slow {
			fast++
		}
	}
	if len(kinds) < 30 || fast < len(kinds)/2 {
		t.Errorf("%d kinds of fault, %d of them in make test", len(kinds), fast)
	}
	promises, err := os.ReadFile("../../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`chaos: ([^`]+)`").FindAllStringSubmatch(string(promises), -1)
	for _, name := range named {
		if !kinds[name[1]] {
			t.Errorf("no fault is called %q", name[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("docs/promises.md names %d faults: this test looks for the wrong thing", len(named))
	}
}

func hosts() []conformance.Host {
	return []conformance.Host{conformance.NetHTTP(), conformance.Gin(), conformance.Echo(), conformance.Fiber()}
}

// Every fault: no wrong byte, no error of ours but the documented 503, and all is well again when it is over. What it
// cost goes to the report.
func TestFaults(t *testing.T) {
	var rows []row
	for _, host := range hosts() { // what a framework starts once and for all, it starts now
		warm(t, host)
	}
	hosts := hosts()
	for i, f := range faults() {
		over := hosts[i%len(hosts) : i%len(hosts)+1]
		switch {
		case !*all && f.slow:
			continue
		case *all && !f.slow:
			over = hosts
		}
		for _, host := range over {
			r := row{fault: f, host: host.Name}
			before := resources()
			ran := false
			if t.Run(f.name+"/"+host.Name, func(t *testing.T) { ran = true; f.run(t, host, &r) }) {
				r.ok = true
			}
			if !ran { // -run asks for others
				continue
			}
			r.goroutines, r.heap = settle(before)
			if r.goroutines > 0 || r.heap > heapSlack {
				t.Errorf("%s over %s left %d goroutines and %d bytes behind", f.name, host.Name, r.goroutines, r.heap)
				r.ok = false
			}
			t.Log(&r)
			rows = append(rows, r)
		}
	}
	if *report != "" {
		if err := write(*report, rows); err != nil {
			t.Error(err)
		}
	}
}
