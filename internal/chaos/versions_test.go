package chaos

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/conformance"
	"github.com/herdgate/herdgate/internal/redistest"
)

// next is a client of the next version of herdgate, as far as Redis can tell: its keys have another format version.
type next struct{ now, then string }

func (n next) rewrite(cmd redis.Cmder) {
	args := cmd.Args()
	for i, arg := range args {
		if s, ok := arg.(string); ok {
			args[i] = strings.ReplaceAll(s, n.now, n.then)
		}
	}
}

func (n next) DialHook(hook redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return hook(ctx, network, addr) }
}

func (n next) ProcessHook(hook redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		n.rewrite(cmd)
		return hook(ctx, cmd)
	}
}

func (n next) ProcessPipelineHook(hook redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			n.rewrite(cmd)
		}
		return hook(ctx, cmds)
	}
}

// versions: a deployment, in the middle. Processes of two versions serve the same URLs over one Redis and one namespace. Neither
// sees what the other stores, nor waits for it: each computes a key once.
func versions(t *testing.T, host conformance.Host, r *row) {
	w := newWorld(t, &fault{}, host)
	w.origin.mark = "old-"
	v := &world{t: t, fault: w.fault, server: w.server, admin: w.admin, ns: w.ns, stop: make(chan struct{})}
	v.origin.size, v.origin.mark = w.origin.size, "new-"
	hook := next{now: w.ns + ":v1:{", then: w.ns + ":v2:{"}
	v.redis = []core.RedisOption{core.Instrument(func(own redis.UniversalClient) error {
		own.AddHook(hook)
		return nil
	})}
	var clients []redis.UniversalClient
	for range processes {
		clients = append(clients, w.server.Client())
	}
	v.serve(host, clients)
	deployed := []*world{w, v}

	loads := []*load{begin(w), begin(v)}
	for _, of := range deployed {
		for i := range processes {
			of.healed(i, 10*time.Second)
		}
	}
	for range 10 { // the same cold key in both, at the same time
		target := "/both/" + redistest.Namespace()
		w.crowd(4*processes, func(i int) { deployed[i%2].must(context.Background(), i/2%processes, target) })
		for _, of := range deployed {
			r.keys++
			r.extra += max(0, of.origin.computed(target)-1)
		}
	}
	for i, l := range loads {
		l.phase.Store(normal)
		<-time.After(200 * time.Millisecond)
		l.end()
		r.answers += l.answers
		r.wrong += len(l.wrong)
		r.own5xx += l.own5xx
		r.ours += l.ours
		if len(l.wrong) > 0 {
			t.Errorf("version %d: %d of %d answers were wrong: %s", i+1, len(l.wrong), l.answers, l.wrong[0])
		}
	}
	if r.own5xx > 0 {
		t.Errorf("%d errors of our own", r.own5xx)
	}
	if missed := w.noRedis() + v.noRedis(); r.extra > missed {
		t.Errorf("%d computations more than one for each key and version", r.extra)
	}
	for i, of := range []string{hook.now, hook.then} {
		if !strings.Contains(strings.Join(redistest.Keys(t, w.admin, w.ns), " "), of) {
			t.Errorf("version %d has no key: both are the same", i+1)
		}
	}
	redistest.CheckTTLs(t, w.admin, w.ns)
}

// noRedis is how many computations there were because Redis did not answer in time, which happens on a busy machine.
func (w *world) noRedis() (n int) {
	for _, gate := range w.gates {
		n += int(gate.Stats().Events["no-redis"])
	}
	return n
}
