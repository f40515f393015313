package redistest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("REDISTEST_CHILD") != "" {
		child()
	}
	goleak.VerifyTestMain(Main(m))
}

// child starts a server, tells its address, and waits to be killed.
func child() {
	s := Start(childTB{})
	fmt.Println(s.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0) // no cleanup has run
}

type childTB struct{}

func (childTB) Helper()             {}
func (childTB) Cleanup(func())      {}
func (childTB) Logf(string, ...any) {}
func (childTB) Fatalf(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
	os.Exit(1)
}

// recorder is a TB for what must fail.
type recorder struct {
	*testing.T
	failure string
}

func (r *recorder) Fatalf(format string, args ...any) {
	if r.failure == "" {
		r.failure = fmt.Sprintf(format, args...)
	}
}

// impatient makes a client notice soon that nobody answers, and never send twice.
func impatient(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.MaxRetries = -1
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestStart(t *testing.T) {
	t.Parallel()
	s := Start(t, "--maxmemory", "10mb", "--requirepass", "secret")
	c := s.Client()
	ctx := within(t, 30*time.Second)

	for setting, want := range map[string]string{"maxmemory": "10485760", "save": "", "appendonly": "no"} {
		if got := c.ConfigGet(ctx, setting).Val()[setting]; got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if got := s.Do("SET", "k", "v", "PX", 10_000); got != "OK" {
		t.Errorf("SET: %v", got)
	}
	if got := s.Do("GET", "other"); got != nil {
		t.Errorf("GET of nothing: %v", got)
	}

	old := s.Pid()
	s.Restart()
	if s.Pid() == old || c.Exists(ctx, "k").Val() != 0 {
		t.Error("Restart did not start an empty server")
	}
	s.Kill()
	if conn, err := net.Dial("tcp", s.Addr); err == nil {
		conn.Close()
		t.Error("a killed server accepts connections")
	}
	s.Restart()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("after Kill and Restart: %v", err)
	}
}

func TestStopAndCont(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client(impatient)
	s.Stop()
	if err := c.Ping(within(t, 100*time.Millisecond)).Err(); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("a stopped server answers: %v", err)
	}
	s.Cont()
	if err := c.Ping(within(t, 10*time.Second)).Err(); err != nil {
		t.Errorf("a continued server does not answer: %v", err)
	}
	s.Stop() // the cleanup must get a stopped server down too
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

func TestServerDiesWithTheTestProcess(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1", "TMPDIR="+t.TempDir()) // it cleans nothing up
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	addr := strings.TrimSpace(line)
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		conn.Close()
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	if err != nil {
		t.Fatalf("the child's server does not run: %q, %v", line, err)
	}
	Eventually(t, 5*time.Second, "the server ends", func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestNoRedisFailsWithTheCure(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := &fatal{T: t}
	func() {
		defer func() { _ = recover() }()
		Start(r)
	}()
	if !strings.Contains(r.failure, "apt-get install redis-server") {
		t.Errorf("the message does not tell the cure: %q", r.failure)
	}
}

// fatal ends at the first failure, as a test does.
type fatal struct {
	*testing.T
	failure string
}

func (f *fatal) Fatalf(format string, args ...any) {
	f.failure = fmt.Sprintf(format, args...)
	panic(f.failure)
}

func TestShared(t *testing.T) {
	t.Parallel()
	first, second := Shared(t), Shared(t)
	if first.Pid() != second.Pid() {
		t.Error("two processes")
	}
	var inner *redis.Client
	t.Run("client ends with its test", func(t *testing.T) {
		inner = Shared(t).Client()
		if err := inner.Ping(t.Context()).Err(); err != nil {
			t.Error(err)
		}
	})
	if err := inner.Ping(t.Context()).Err(); !errors.Is(err, redis.ErrClosed) {
		t.Errorf("the inner test's client: %v", err)
	}
	if first.Do("PING") != "PONG" {
		t.Error("the server ended with the inner test")
	}
	r := &fatal{T: t}
	func() {
		defer func() { _ = recover() }()
		Shared(r).Kill()
	}()
	if r.failure == "" {
		t.Error("a test killed the shared server")
	}
	if a, b := Namespace(), Namespace(); a == b || len(a) > 64 {
		t.Errorf("namespaces %q, %q", a, b)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := SharedCluster(t)
	client := c.Client()
	ctx := within(t, 30*time.Second)
	ns := Namespace()

	nodes := map[string]bool{}
	for i := range 30 {
		key := fmt.Sprintf("%s:%d", ns, i)
		if err := client.Set(ctx, key, "v", time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		node := c.NodeOf(key)
		nodes[node.Addr] = true
		if got := node.Do("GET", key); got != "v" { // another node would answer MOVED
			t.Errorf("NodeOf(%q): GET there gives %v", key, got)
		}
	}
	if len(nodes) != 3 {
		t.Errorf("30 keys on %d nodes", len(nodes))
	}
	if got := len(Keys(t, client, ns)); got != 30 {
		t.Errorf("Keys found %d of 30", got)
	}
	CheckTTLs(t, client, ns)

	// A cluster client behind proxies.
	var proxies []*Proxy
	for _, node := range c.Nodes {
		proxies = append(proxies, StartProxy(t, node.Addr))
	}
	through := c.Client(func(o *redis.ClusterOptions) { o.Dialer = DialThrough(proxies...) })
	for i := range 30 {
		if err := through.Get(ctx, fmt.Sprintf("%s:%d", ns, i)).Err(); err != nil {
			t.Error(err)
		}
	}
	for _, p := range proxies {
		if p.Requests() == 0 {
			t.Errorf("nothing went through the proxy of %s", p.target)
		}
	}
}

func TestClusterNodeRestarts(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	c.Nodes[1].Restart()
	c.WaitReady()
	client := c.Client()
	for i := range 10 {
		if err := client.Set(t.Context(), fmt.Sprint("k", i), "v", time.Minute).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestClusterNodeWithoutSlots(t *testing.T) {
	t.Parallel()
	c := StartCluster(t, 3)
	c.Empty(1, 2)
	if got := c.Nodes[1].Do("CLUSTER", "SLOTS"); strings.Contains(fmt.Sprint(got), fmt.Sprint(c.Nodes[1].p.port)) {
		t.Errorf("the node has slots: %v", got)
	}
	client := c.Client(func(o *redis.ClusterOptions) { o.Addrs = []string{c.Nodes[1].Addr} })
	for i := range 10 {
		if err := client.Set(t.Context(), fmt.Sprint("k", i), "v", time.Minute).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := StartSentinel(t)
	ctx := within(t, time.Minute)
	c := s.Client()
	if err := c.Set(ctx, "k", "v", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	first := s.Primary()
	s.Failover()
	second := s.Primary()
	if first.Addr == second.Addr {
		t.Error("the same primary")
	}
	Eventually(t, 10*time.Second, "the client follows", func() bool { return c.Set(ctx, "k", "v2", time.Minute).Err() == nil })

	s.WaitReady() // the old primary has become the replica
	second.Kill()
	s.WaitFailover(second)
	Eventually(t, 10*time.Second, "the client follows again", func() bool { return c.Set(ctx, "k", "v3", time.Minute).Err() == nil })
	if got := s.Primary().Addr; got != first.Addr {
		t.Errorf("primary %s, want %s", got, first.Addr)
	}
}

func TestProxyDropsReply(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	key := Namespace() + ":k"
	ctx := within(t, 30*time.Second)
	once := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })

	p.DropReplies(1, Command("incr", key))
	if err := once.Incr(ctx, key).Err(); !errors.Is(err, io.EOF) {
		t.Errorf("INCR with a lost reply: %v, want EOF", err)
	}
	if got := server.Do("GET", key); got != "1" {
		t.Errorf("the server has %v: it must have executed the command", got)
	}
	if p.Dropped() != 1 {
		t.Errorf("%d dropped", p.Dropped())
	}
	// The rule is used up; and a client that retries executes twice without knowing.
	if err := once.Incr(ctx, key).Err(); err != nil {
		t.Error(err)
	}
	p.DropReplies(1, Command("INCR"))
	retrying := server.Client(func(o *redis.Options) { o.Addr = p.Addr })
	if got, err := retrying.Incr(ctx, key).Result(); got != 4 || err != nil {
		t.Errorf("INCR, sent again after a lost reply: %d, %v; want 4", got, err)
	}
	server.Do("DEL", key)
}

// go-redis opens a connection with a pipeline, and a user may send one: the replies must
// be counted off against the commands.
func TestProxyDropsReplyInPipeline(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		server := Shared(t)
		p := StartProxy(t, server.Addr)
		c := server.Client(impatient, func(o *redis.Options) { o.Addr, o.Protocol = p.Addr, protocol })
		ctx := within(t, 30*time.Second)
		ns := Namespace()
		p.DropReplies(1, Command("get", ns+":b"))

		pipe := c.Pipeline()
		hash := pipe.HSet(ctx, ns+":h", "f", "v", "g", "w")
		pipe.Expire(ctx, ns+":h", time.Minute)
		all := pipe.HGetAll(ctx, ns+":h") // a map in RESP3
		first := pipe.Set(ctx, ns+":a", strings.Repeat("x\r\n", 50_000), time.Minute)
		back := pipe.Get(ctx, ns+":a")
		lost := pipe.Get(ctx, ns+":b")
		_, _ = pipe.Exec(ctx)
		if hash.Val() != 2 || len(all.Val()) != 2 || first.Val() != "OK" || len(back.Val()) != 150_000 {
			t.Errorf("RESP%d: the replies before the lost one: %v, %v, %v, %d bytes", protocol, hash, all, first, len(back.Val()))
		}
		if err := lost.Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("RESP%d: the lost reply arrived: %v", protocol, err)
		}
	}
}

func TestProxyDropsRequest(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	key := Namespace() + ":k"
	p.DropRequests(1, Command("set", key))
	if err := c.Set(t.Context(), key, 1, time.Minute).Err(); !errors.Is(err, io.EOF) {
		t.Errorf("SET that is lost: %v", err)
	}
	if got := server.Do("GET", key); got != nil || p.Dropped() != 1 {
		t.Errorf("the server has %v, %d dropped", got, p.Dropped())
	}
}

func TestProxyHolds(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(func(o *redis.Options) { o.Addr = p.Addr })
	key := Namespace() + ":k"

	for _, test := range []struct {
		name string
		hold *Hold
		want any // what the server has while it is held
	}{
		{"reply", p.HoldReplies(1, Command("set", key)), "reply"},
		{"request", p.HoldRequests(1, Command("set", key)), nil},
	} {
		server.Do("DEL", key)
		result := make(chan error, 1)
		go func() { result <- c.Set(t.Context(), key, test.name, time.Minute).Err() }()
		<-test.hold.Held()
		if got := server.Do("GET", key); got != test.want {
			t.Errorf("%s held: the server has %v, want %v", test.name, got, test.want)
		}
		select {
		case err := <-result:
			t.Errorf("%s held: SET ended with %v", test.name, err)
		default:
		}
		test.hold.Release()
		test.hold.Release() // harmless
		if err := <-result; err != nil {
			t.Errorf("%s released: %v", test.name, err)
		}
		if got := server.Do("GET", key); got != test.name {
			t.Errorf("%s released: the server has %v", test.name, got)
		}
	}
}

func TestProxyBlackHole(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	ctx := within(t, 30*time.Second)
	key := Namespace() + ":k"
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	p.BlackHole()
	for _, kind := range []string{"existing", "new"} { // the first timeout costs the connection
		accepted := p.Accepted()
		start := time.Now()
		err := c.Set(within(t, 50*time.Millisecond), key, kind, time.Minute).Err()
		if took := time.Since(start); err == nil || took < 40*time.Millisecond {
			t.Errorf("%s connection: %v after %v", kind, err, took)
		}
		if isNew := p.Accepted() > accepted; isNew != (kind == "new") {
			t.Errorf("%s connection: %d accepted, before: %d", kind, p.Accepted(), accepted)
		}
	}
	if got := server.Do("GET", key); got != nil {
		t.Errorf("%v went through", got)
	}
	p.Pass() // what was on its way arrives late
	Eventually(t, 5*time.Second, "the late command", func() bool { return server.Do("GET", key) == "existing" })
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("after Pass: %v", err)
	}
}

func TestProxyCutsAndRefuses(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	ctx := within(t, 30*time.Second)
	if err := c.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if p.Open() != 1 || p.Accepted() != 1 {
		t.Errorf("%d open, %d accepted", p.Open(), p.Accepted())
	}
	before, blocked := p.Requests(), make(chan error, 1)
	go func() { blocked <- c.BLPop(ctx, 20*time.Second, Namespace()).Err() }()
	Eventually(t, 5*time.Second, "BLPOP is under way", func() bool { return p.Requests() == before+1 })
	p.CutAll()
	if err := <-blocked; !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("CutAll: %v", err)
	}
	if p.Open() != 0 {
		t.Errorf("%d open after CutAll", p.Open())
	}
	p.Refuse()
	if err := c.Ping(ctx).Err(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Refuse: %v", err)
	}
	p.Pass()
	if err := c.Ping(ctx).Err(); err != nil {
		t.Errorf("after Pass: %v", err)
	}
}

func TestProxyDelays(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(func(o *redis.Options) { o.Addr = p.Addr })
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []struct{ toServer, toClient time.Duration }{{60 * time.Millisecond, 0}, {0, 60 * time.Millisecond}} {
		p.Delay(d.toServer, d.toClient)
		start := time.Now()
		if err := c.Ping(t.Context()).Err(); err != nil || time.Since(start) < 60*time.Millisecond {
			t.Errorf("%v: %v after %v", d, err, time.Since(start))
		}
	}
}

func TestProxyAnswers(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	ctx := within(t, 30*time.Second)
	key := Namespace() + ":k"
	p.Answer(2, "MISCONF no disk", Command("set"))
	for range 2 {
		if err := c.Set(ctx, key, "v", time.Minute).Err(); err == nil || err.Error() != "MISCONF no disk" {
			t.Errorf("SET: %v", err)
		}
		if err := c.Ping(ctx).Err(); err != nil { // the replies after it are not shifted
			t.Errorf("PING: %v", err)
		}
	}
	if got := server.Do("GET", key); got != nil {
		t.Errorf("the server has %v: it must not have seen the command", got)
	}
	if err := c.Set(ctx, key, "v", time.Minute).Err(); err != nil || p.Dropped() != 0 || p.Accepted() != 1 {
		t.Errorf("SET after two: %v, %d dropped, %d connections", err, p.Dropped(), p.Accepted())
	}
	p.Answer(-1, "LOADING", Command("get"))
	for range 5 {
		if err := c.Get(ctx, key).Err(); err == nil || err.Error() != "LOADING" {
			t.Errorf("GET: %v", err)
		}
	}
	p.Pass()
	if got, err := c.Get(ctx, key).Result(); got != "v" || err != nil {
		t.Errorf("GET after Pass: %q, %v", got, err)
	}
}

func TestProxyResets(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	p.ResetAll()                         // nothing to reset
	conn, err := net.Dial("tcp", p.Addr) // go-redis does not tell a reset from an end
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	reply := make([]byte, 64)
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(reply); string(reply[:n]) != "+PONG\r\n" || err != nil {
		t.Fatalf("PING: %q, %v", reply[:n], err)
	}
	p.ResetAll()
	if _, err := conn.Read(reply); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("ResetAll: %v, want a reset", err)
	}
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	if err := c.Ping(within(t, 30*time.Second)).Err(); err != nil || p.Open() != 1 {
		t.Errorf("after ResetAll: %v, %d open", err, p.Open())
	}
}

func TestProxyStrands(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(impatient, func(o *redis.Options) { o.Addr = p.Addr })
	key := Namespace() + ":k"
	if err := c.Ping(within(t, 10*time.Second)).Err(); err != nil {
		t.Fatal(err)
	}
	p.Strand()
	p.Pass() // does not call it back
	if err := c.Set(within(t, 50*time.Millisecond), key, "old", time.Minute).Err(); !errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) {
		t.Errorf("the connection that exists: %v", err)
	}
	if got := server.Do("GET", key); got != nil {
		t.Errorf("%v went through", got)
	}
	if err := c.Set(within(t, 10*time.Second), key, "new", time.Minute).Err(); err != nil || p.Accepted() != 2 {
		t.Errorf("a new connection: %v, %d accepted", err, p.Accepted())
	}
}

func TestProxyLimits(t *testing.T) {
	t.Parallel()
	server := Shared(t)
	p := StartProxy(t, server.Addr)
	c := server.Client(func(o *redis.Options) { o.Addr = p.Addr })
	ctx := within(t, 30*time.Second)
	key, value := Namespace()+":k", strings.Repeat("x", 20<<10)
	if err := c.Set(ctx, key, value, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	p.Limit(100 << 10)
	start := time.Now()
	if got, err := c.Get(ctx, key).Result(); got != value || err != nil || time.Since(start) < 150*time.Millisecond {
		t.Errorf("20 kB at 100 kB/s: %d bytes, %v, after %v", len(got), err, time.Since(start))
	}
	p.Limit(0)
	if got, err := c.Get(ctx, key).Result(); got != value || err != nil {
		t.Errorf("without a limit: %d bytes, %v", len(got), err)
	}
}

// Messages come unasked: they must not be taken for replies, in either protocol.
func TestProxyPassesSubscriptions(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		server := Shared(t)
		p := StartProxy(t, server.Addr)
		p.DropReplies(-1, Command("never"))
		c := server.Client(func(o *redis.Options) { o.Addr, o.Protocol = p.Addr, protocol })
		ctx := within(t, 30*time.Second)
		channel := Namespace()
		sub := c.Subscribe(ctx, channel, channel+"2")
		t.Cleanup(func() { sub.Close() })
		for range 2 {
			if _, err := sub.Receive(ctx); err != nil {
				t.Fatal(err)
			}
		}
		var sent sync.WaitGroup
		sent.Go(func() {
			for i := range 100 {
				server.Do("PUBLISH", channel, i)
			}
		})
		for i := range 100 {
			m, err := sub.ReceiveMessage(ctx)
			if err != nil || m.Payload != fmt.Sprint(i) {
				t.Fatalf("RESP%d: message %d: %v, %v", protocol, i, m, err)
			}
			if i == 50 {
				if err := sub.Ping(ctx); err != nil {
					t.Error(err)
				}
			}
		}
		sent.Wait()
	}
}

func TestChecks(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Client()
	s.Do("SET", "a:1:lock", "x", "PX", 60_000)
	s.Do("SET", "a:1", "x", "PX", 60_000)
	s.Do("SET", "b:1:lock", "x")

	if got := Locks(t, c); fmt.Sprint(got) != "[a:1:lock b:1:lock]" {
		t.Errorf("Locks: %v", got)
	}
	if got := Locks(t, c, "a"); fmt.Sprint(got) != "[a:1:lock]" {
		t.Errorf("Locks of a: %v", got)
	}
	CheckTTLs(t, c, "a")
	r := &recorder{T: t}
	CheckTTLs(r, c)
	if !strings.Contains(r.failure, `"b:1:lock"`) || strings.Contains(r.failure, "a:1") {
		t.Errorf("CheckTTLs: %q", r.failure)
	}

	before := CommandCount(t, c)
	other := s.Client() // HELLO and CLIENT SETINFO do not count
	for range 3 {
		if err := other.Eval(t.Context(), `redis.call('GET', KEYS[1]) return redis.call('GET', KEYS[1])`, []string{"a:1"}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := CommandCount(t, c) - before; got != 9 {
		t.Errorf("3 scripts of 2 calls: %d commands, want 9: %v", got, CommandStats(t, c))
	}
}

func TestFraming(t *testing.T) {
	t.Parallel()
	for _, frame := range []string{
		"+OK\r\n", "-ERR no\r\n", ":12\r\n", "_\r\n", ",1.5\r\n", "#t\r\n", "(123\r\n",
		"$-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n", "!5\r\nERR x\r\n", "=5\r\ntxt:a\r\n",
		"*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~1\r\n:1\r\n", ">2\r\n+a\r\n+b\r\n",
		"%1\r\n+k\r\n*1\r\n_\r\n", "|1\r\n+ttl\r\n:3\r\n$1\r\na\r\n",
	} {
		r := bufio.NewReader(strings.NewReader(frame + "+next\r\n"))
		got, err := readReply(r)
		if err != nil || string(got) != frame {
			t.Errorf("%q: %q, %v", frame, got, err)
		}
		if rest, _ := io.ReadAll(r); !bytes.Equal(rest, []byte("+next\r\n")) {
			t.Errorf("%q left %q", frame, rest)
		}
	}
	for _, bad := range []string{"", "+OK", "?\r\n", "$x\r\n", "$5\r\nab\r\n", "*2\r\n:1\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q: %q without an error", bad, got)
		}
	}
	frame, args, err := readCommand(bufio.NewReader(strings.NewReader("*2\r\n$3\r\nGET\r\n$3\r\nk\r\n\r\n")))
	if err != nil || len(frame) != 22 || len(args) != 2 || args[1] != "k\r\n" {
		t.Errorf("command: %q, %q, %v", frame, args, err)
	}
	if _, args, err := readCommand(bufio.NewReader(strings.NewReader("PING a\r\n"))); err != nil || fmt.Sprint(args) != "[PING a]" {
		t.Errorf("inline command: %q, %v", args, err)
	}
}
