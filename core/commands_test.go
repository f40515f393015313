package core

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/internal/redistest"
)

// trips writes down what a client sends, a round trip a line, and of scripts how long their arguments are.
type trips struct {
	mu     sync.Mutex
	sent   []string
	script int // the longest argument of one, its source aside
}

func (r *trips) note(cmds []redis.Cmder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "hello", "client", "ping", "subscribe": // of connections, and of the inbox
			continue
		case "evalsha", "eval":
			for _, arg := range cmd.Args()[2:] {
				r.script = max(r.script, len(fmt.Sprintf("%s", arg)))
			}
		}
		names = append(names, cmd.Name())
	}
	if len(names) > 0 {
		r.sent = append(r.sent, strings.Join(names, " "))
	}
}

func (r *trips) all() (sent []string, script int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sent, script = r.sent, r.script
	r.sent, r.script = nil, 0
	return sent, script
}

func (r *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (r *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note([]redis.Cmder{cmd})
		return next(ctx, cmd)
	}
}

func (r *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.note(cmds)
		return next(ctx, cmds)
	}
}

// A hit is one round trip with one command, of a variant too: the generation comes along. A miss looks, and looks again and takes the
// lock in one, then stores the body and ends the lock: the body passes through no script.
func TestRoundTrips(t *testing.T) {
	server := redistest.Shared(t)
	admin := server.Client()
	loaded(t, admin)
	body := strings.Repeat("herdgate", 1<<14)
	for name, c := range map[string]struct {
		handler   func(o *origin) func(context.Context, *page)
		hit, miss []string
	}{
		"plain":  {func(o *origin) func(context.Context, *page) { return o.answers(0, body) }, []string{"getrange"}, []string{"getrange", "evalsha", "set", "evalsha"}},
		"varied": {func(o *origin) func(context.Context, *page) { return o.varied(0, body) }, []string{"getrange get"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := server.Client(once)
			r := &trips{}
			ns := unique("trips")
			p := hookedOn(t, client, r, ns)
			var o origin
			// On a busy machine Redis may seem too slow. Then the request says so, and is no example.
			example := func(target string, role Role) (sent []string, script int) {
				for range 20 {
					late := untimely(p)
					_, _ = r.all()
					v := get(target, c.handler(&o)).send(p.serve)
					sent, script := r.all()
					if untimely(p) == late && v.out.Role == role {
						v.want(t, role, body)
						return sent, script
					}
					target += "x"
				}
				t.Fatalf("no %s", role)
				return nil, 0
			}
			example("/warm", RoleWinner)
			if sent, longest := example("/", RoleWinner); c.miss != nil && !slices.Equal(sent, c.miss) {
				t.Errorf("a miss sends %q, want %q", sent, c.miss)
			} else if longest > 1000 {
				t.Errorf("%d bytes went through a script", longest)
			}
			eventually(t, func() bool { return get("/hot", c.handler(&o)).send(p.serve).out.Role == RoleHit })
			for range 5 {
				late := untimely(p)
				_, _ = r.all()
				get("/hot", c.handler(&o)).send(p.serve)
				if sent, _ := r.all(); untimely(p) == late && !slices.Equal(sent, c.hit) {
					t.Errorf("a hit sends %q, want %q", sent, c.hit)
				}
			}
			unlocked(t, admin, ns)
		})
	}
}

// A lifetime that Redis cannot express is rounded up: as zero it would be none, or for ever.
func TestLifetimesRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 1, time.Nanosecond: 1, 400 * time.Microsecond: 1, time.Millisecond: 1, 1500 * time.Microsecond: 2, time.Second: 1000} {
		if got := ms(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}
