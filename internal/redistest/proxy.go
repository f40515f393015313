package redistest

import (
	"bufio"
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// Proxy is the network between clients and one server, with the faults of a network. It
// knows where a command and a reply begin and end, so that a fault can hit one exchange:
//
//	p := redistest.StartProxy(t, server.Addr)
//	c := redis.NewClient(&redis.Options{Addr: p.Addr})
//	p.DropReplies(1, redistest.Command("evalsha", acquire.Hash()))
//
// A fresh proxy passes everything on. Its methods may be called at any time from any
// goroutine; what is on its way already is not called back. Which of its faults is on:
//
//	                    connections that exist    new ones
//	Pass                served                    served
//	BlackHole           silent                    accepted, silent
//	Refuse              cut                       refused
//	CutAll              cut, once                 as before
//	ResetAll            reset, once               as before
//	Strand              silent, for good          served
type Proxy struct {
	Addr string // 127.0.0.1:port, always the same

	t      TB
	target string
	wg     sync.WaitGroup // the accept loop and all pumps

	mu        sync.Mutex
	listener  net.Listener  // nil while refusing
	silent    chan struct{} // closed when the silence ends; nil: not silent
	toServer  time.Duration
	toClient  time.Duration
	perSecond int
	rules     []*rule
	links     map[*link]bool
	closed    bool
	accepted  int
	requests  int
	dropped   int
}

// StartProxy starts a proxy in front of the server at target. It ends after the test.
func StartProxy(t TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, links: map[*link]bool{}}
	var err error
	for range 5 { // somebody may take the port between our look and our bind
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		p.Addr = net.JoinHostPort("127.0.0.1", itoa(port))
		p.mu.Lock()
		err = p.listen()
		p.mu.Unlock()
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: proxy: %v", err)
	}
	t.Cleanup(p.close)
	return p
}

// DialThrough returns a Dialer for go-redis' options that reaches the targets of the
// proxies through them, and other addresses directly. A cluster client, which learns the
// addresses of the nodes from the nodes, and a failover client need it.
func DialThrough(proxies ...*Proxy) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		for _, p := range proxies {
			if p.target == addr {
				addr = p.Addr
				break
			}
		}
		d := net.Dialer{Timeout: 5 * time.Second} // go-redis' own default
		return d.DialContext(ctx, network, addr)
	}
}

// Command returns a matcher for commands that begin with these words, in any case.
func Command(words ...string) func(args []string) bool {
	return func(args []string) bool {
		if len(args) < len(words) {
			return false
		}
		for i, w := range words {
			if !strings.EqualFold(args[i], w) {
				return false
			}
		}
		return true
	}
}

// Pass makes a plain proxy of it again: every fault ends, what was held goes on its way,
// as a network delivers late what it could not deliver before. To lose it instead, CutAll
// before.
func (p *Proxy) Pass() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toServer, p.toClient, p.perSecond = 0, 0, 0
	for _, r := range p.rules {
		r.free()
	}
	p.rules = nil
	if p.silent != nil {
		close(p.silent)
		p.silent = nil
	}
	p.relisten()
}

// BlackHole makes the network silent: connections are accepted, and nothing is forwarded
// in either direction, until Pass.
func (p *Proxy) BlackHole() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent == nil {
		p.silent = make(chan struct{})
	}
	p.relisten()
}

// Refuse cuts all connections and refuses new ones, as a server does that is down, until
// Pass or BlackHole.
func (p *Proxy) Refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.cutAll()
}

// CutAll closes every connection now. What the server received, it may still execute.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
}

// ResetAll resets every connection now, without the goodbye that CutAll says: what is on its way is lost.
func (p *Proxy) ResetAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		if tcp, ok := l.client.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		l.cutLocked()
	}
}

// Strand silences the connections that exist, for good: half-open, as after a router has forgotten them. New ones are
// served.
func (p *Proxy) Strand() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stranded = true
	}
}

// Limit lets so many bytes per second pass to the clients, over each connection, until Pass or another Limit; 0: no limit.
func (p *Proxy) Limit(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.perSecond = bytesPerSecond
}

// Answer answers the next n matching commands (n < 0: all) with an error reply, such as "MISCONF Errors writing to
// disk", in the server's place. Else as DropReplies; it does not count as dropped.
func (p *Proxy) Answer(n int, reply string, match func(args []string) bool) {
	p.add(&rule{fault: answer, left: n, match: match, reply: "-" + reply + "\r\n"})
}

// Delay holds each request and each reply back for that long, until Pass or another Delay.
func (p *Proxy) Delay(toServer, toClient time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toServer, p.toClient = toServer, toClient
}

// DropReplies lets the next n matching commands (n < 0: all) reach the server, waits for the
// reply, which proves that the server executed them, swallows it and cuts the
// connection. The matcher sees the words of the command, its name first, and is called
// by several goroutines. Of several matching rules the oldest acts.
func (p *Proxy) DropReplies(n int, match func(args []string) bool) {
	p.add(&rule{fault: dropReply, left: n, match: match})
}

// DropRequests cuts the connection instead of forwarding the next n matching commands
// (n < 0: all): the server never sees them. Else as DropReplies.
func (p *Proxy) DropRequests(n int, match func(args []string) bool) {
	p.add(&rule{fault: dropRequest, left: n, match: match})
}

// HoldReplies lets the next n matching commands (n < 0: all) reach the server and keeps
// the replies back until Release, or Pass. What comes after them on the same connection
// waits behind them.
func (p *Proxy) HoldReplies(n int, match func(args []string) bool) *Hold {
	return p.hold(holdReply, n, match)
}

// HoldRequests keeps the next n matching commands (n < 0: all) from the server until
// Release, or Pass. They are delivered then even if the client has gone, as a network may do.
func (p *Proxy) HoldRequests(n int, match func(args []string) bool) *Hold {
	return p.hold(holdRequest, n, match)
}

func (p *Proxy) hold(f fault, n int, match func(args []string) bool) *Hold {
	r := &rule{fault: f, left: n, match: match, held: make(chan struct{}), released: make(chan struct{})}
	p.add(r)
	return &Hold{p: p, r: r}
}

// Hold is what HoldReplies and HoldRequests keep back.
type Hold struct {
	p *Proxy
	r *rule
}

// Held is closed when the first command, or reply, has come and is being held.
func (h *Hold) Held() <-chan struct{} { return h.r.held }

// Release lets what is held go on its way, and what would be held from now on.
func (h *Hold) Release() {
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.r.free()
}

// Dropped returns how many replies and requests were dropped by a rule.
func (p *Proxy) Dropped() int { return p.count(&p.dropped) }

// Requests returns how many commands clients sent, whatever became of them.
func (p *Proxy) Requests() int { return p.count(&p.requests) }

// Accepted returns how many connections clients made.
func (p *Proxy) Accepted() int { return p.count(&p.accepted) }

// Open returns how many connections clients have open.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) count(n *int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *n
}

type fault int

const (
	none fault = iota
	dropRequest
	holdRequest
	dropReply
	holdReply
	answer
)

// rule is a fault for the commands that match. All but match is guarded by Proxy.mu.
type rule struct {
	fault fault
	match func(args []string) bool
	left  int // negative: no end
	reply string

	held     chan struct{} // closed at the first that is held
	released chan struct{}
	isHeld   bool
	isFree   bool
}

func (r *rule) free() {
	if r.released != nil && !r.isFree {
		r.isFree = true
		close(r.released)
	}
}

func (p *Proxy) add(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules[:len(p.rules):len(p.rules)], r)
}

// ruleFor returns the rule that acts on a command, or nil, and uses up one of its times.
func (p *Proxy) ruleFor(args []string) *rule {
	p.mu.Lock()
	p.requests++
	rules := p.rules
	p.mu.Unlock()
	for _, r := range rules {
		if !r.match(args) { // outside the lock: it is the test's own function
			continue
		}
		p.mu.Lock()
		acts := r.left != 0
		if r.left > 0 {
			r.left--
		}
		p.mu.Unlock()
		if acts {
			return r
		}
	}
	return nil
}

// listen opens the listener and starts its accept loop. Proxy.mu is held.
func (p *Proxy) listen() error {
	ln, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return err
	}
	p.listener = ln
	p.wg.Add(1)
	go p.accept(ln)
	return nil
}

// relisten ends a Refuse. Proxy.mu is held.
func (p *Proxy) relisten() {
	p.t.Helper()
	if p.listener != nil || p.closed {
		return
	}
	if err := p.listen(); err != nil {
		p.t.Fatalf("redistest: proxy: %v", err)
	}
}

func (p *Proxy) accept(ln net.Listener) {
	defer p.wg.Done()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return // closed
		}
		l := &link{p: p, client: conn, gone: make(chan struct{})}
		p.mu.Lock()
		if p.listener != ln { // accepted while Refuse closed the listener
			p.mu.Unlock()
			_ = conn.Close()
			return
		}
		p.accepted++
		p.links[l] = true
		p.wg.Add(1)
		p.mu.Unlock()
		go l.serve()
	}
}

func (p *Proxy) cutAll() {
	for l := range p.links {
		l.cutLocked()
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.cutAll()
	p.mu.Unlock()
	p.wg.Wait()
}

// link is one client connection and its counterpart to the server.
type link struct {
	p      *Proxy
	client net.Conn
	gone   chan struct{} // closed when the link was cut

	// Guarded by Proxy.mu.
	server   net.Conn
	cut      bool
	stranded bool
	pending  []exchange // commands that wait for their replies, oldest first

	subscribed bool // of the request pump alone
}

// exchange is a command that waits for its reply.
type exchange struct {
	rule      *rule
	subscribe bool // answered by a push, in RESP3
}

func (l *link) serve() {
	defer l.p.wg.Done()
	defer l.close()
	if !l.openRoad(0) {
		return
	}
	server, err := net.DialTimeout("tcp", l.p.target, 5*time.Second)
	if err != nil {
		return // the client sees the connection close
	}
	l.p.mu.Lock()
	l.server = server
	cut := l.cut
	l.p.mu.Unlock()
	if cut {
		_ = server.Close()
		return
	}
	l.p.wg.Go(func() { l.pumpRequests(server) })
	l.pumpReplies(server)
}

// pumpRequests carries commands to the server. A client that leaves is passed on as the
// end of the stream, so that the server still gets what was sent before.
func (l *link) pumpRequests(server net.Conn) {
	r := bufio.NewReaderSize(l.client, 32<<10)
	for {
		frame, args, err := readCommand(r)
		if err != nil {
			if tcp, ok := server.(*net.TCPConn); ok {
				_ = tcp.CloseWrite() // the reply pump sees the end
			}
			return
		}
		rule := l.p.ruleFor(args)
		what := none
		if rule != nil {
			what = rule.fault
		}
		switch what {
		case dropRequest:
			l.p.drop(l)
			return
		case holdRequest:
			if !l.hold(rule) {
				return
			}
			rule = nil
		case answer:
			if !l.openRoad(l.p.delay(&l.p.toClient)) {
				return
			}
			if _, err := l.client.Write([]byte(rule.reply)); err != nil {
				l.close()
				return
			}
			continue
		case none, dropReply, holdReply:
		}
		if !l.openRoad(l.p.delay(&l.p.toServer)) {
			return
		}
		// From the first SUBSCRIBE on, what the server sends is no longer an answer to
		// what the client sent last.
		if !l.subscribed {
			l.subscribed = isSubscribe(args)
			l.expect(exchange{rule: rule, subscribe: l.subscribed})
		}
		if _, err := server.Write(frame); err != nil {
			l.close()
			return
		}
	}
}

// pumpReplies carries replies to the client.
func (l *link) pumpReplies(server net.Conn) {
	r := bufio.NewReaderSize(server, 32<<10)
	for {
		frame, err := readReply(r)
		if err != nil {
			return
		}
		if rule := l.answered(frame[0] == '>'); rule != nil {
			switch rule.fault {
			case dropReply:
				l.p.drop(l)
				return
			case holdReply:
				if !l.hold(rule) {
					return
				}
			case none, dropRequest, holdRequest, answer:
			}
		}
		if !l.openRoad(l.p.delay(&l.p.toClient)) {
			return
		}
		if !l.write(frame) {
			return
		}
	}
}

// write sends a reply to the client, as fast as the network lets it. It reports false if the link was cut.
func (l *link) write(frame []byte) bool {
	for len(frame) > 0 {
		l.p.mu.Lock()
		perSecond := l.p.perSecond
		l.p.mu.Unlock()
		part := frame
		if perSecond > 0 {
			part = frame[:min(len(frame), max(1, perSecond/20))]
		}
		if _, err := l.client.Write(part); err != nil {
			return false
		}
		if frame = frame[len(part):]; perSecond > 0 && !l.openRoad(time.Second*time.Duration(len(part))/time.Duration(perSecond)) {
			return false
		}
	}
	return true
}

func (l *link) expect(e exchange) {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.pending = append(l.pending, e)
}

// answered takes the command that a reply belongs to off the list and returns its rule.
func (l *link) answered(push bool) *rule {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if len(l.pending) == 0 || push && !l.pending[0].subscribe {
		return nil
	}
	rule := l.pending[0].rule
	l.pending = l.pending[1:]
	return rule
}

// hold waits until the rule lets go. It reports false if the link was cut.
func (l *link) hold(r *rule) bool {
	l.p.mu.Lock()
	if !r.isHeld {
		r.isHeld = true
		close(r.held)
	}
	l.p.mu.Unlock()
	select {
	case <-r.released:
		return true
	case <-l.gone:
		return false
	}
}

// openRoad waits for the delay, and then for the end of a silence. It reports false if
// the link was cut.
func (l *link) openRoad(delay time.Duration) bool {
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.gone:
			return false
		}
	}
	for {
		l.p.mu.Lock()
		silent, cut, stranded := l.p.silent, l.cut, l.stranded
		l.p.mu.Unlock()
		if cut {
			return false
		}
		if stranded {
			<-l.gone
			return false
		}
		if silent == nil {
			return true
		}
		select {
		case <-silent:
		case <-l.gone:
			return false
		}
	}
}

func (p *Proxy) delay(d *time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return *d
}

func (p *Proxy) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
	l.cutLocked()
}

func (l *link) close() {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.cutLocked()
}

func (l *link) cutLocked() {
	if l.cut {
		return
	}
	l.cut = true
	close(l.gone)
	delete(l.p.links, l)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func isSubscribe(args []string) bool {
	return Command("subscribe")(args) || Command("psubscribe")(args) || Command("ssubscribe")(args)
}
