package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// owners are those who have work done, by how their functions begin. What they have others do, down to the kernel, is theirs.
var owners = []struct{ prefix, name string }{
	{"github.com/herdgate/herdgate/internal/versus", ""},
	{"github.com/herdgate/herdgate/", "herdgate"},
	{"github.com/redis/go-redis/", "go-redis"},
	{"github.com/go-redis/redis/", "go-redis"},
	{"github.com/maypok86/otter/", "otter"},
	{"github.com/gofiber/fiber/v2/middleware/cache.", "Fiber's cache"},
	{"github.com/gofiber/fiber/", "Fiber"},
	{"github.com/valyala/fasthttp.", "fasthttp"},
	{"github.com/gin-gonic/", "Gin"},
	{"github.com/labstack/echo/", "Echo"},
	{"net/http.", "net/http"},
	{"runtime.gcBgMarkWorker", "garbage collector"},
	{"runtime.bgsweep", "garbage collector"},
	{"runtime.mcall", "scheduler"},
	{"runtime.systemstack", "scheduler"},
	{"runtime.schedule", "scheduler"},
}

// costs tells from a CPU profile which share of the time each owner had.
func costs(raw []byte) (map[string]float64, error) {
	p, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	shares := make(map[string]float64)
	var all float64
	for _, s := range p.Sample {
		n := float64(s.Value[len(s.Value)-1])
		all += n
		shares[owner(s)] += n
	}
	for name := range shares {
		shares[name] /= all
	}
	return shares, nil
}

// owner is the innermost that has a function on the stack.
func owner(s *profile.Sample) string {
	for _, at := range s.Location {
		for _, line := range at.Line {
			for _, o := range owners {
				if strings.HasPrefix(line.Function.Name, o.prefix) && o.name != "" {
					return o.name
				}
			}
		}
	}
	return "other"
}

// explanation is where the time goes of two contestants of which the first is too slow.
type explanation struct {
	comparison
	costs [2]map[string]float64 // µs for a request, by owner
}

// markdown lists what differs most first.
func (y explanation) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "### %s: where the time goes\n\nServer CPU µs for a request, by whose code had it done (down to the kernel), from a profile of a second of each.\n\n| | %s | %s | more |\n|---|---|---|---|\n", y.what, y.a, y.b)
	more := func(name string) float64 { return y.costs[0][name] - y.costs[1][name] }
	names := maps.Clone(y.costs[0])
	maps.Copy(names, y.costs[1])
	for _, name := range slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		if more(a) > more(b) {
			return -1
		}
		return 1
	}) {
		fmt.Fprintf(b, "| %s | %.1f | %.1f | %+.1f |\n", name, y.costs[0][name], y.costs[1][name], more(name))
	}
	b.WriteString("\n")
}
