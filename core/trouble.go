package core

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sony/gobreaker/v2"
)

// sayEvery is how often one kind of trouble with Redis is logged.
const sayEvery = time.Minute

// troubles counts what went wrong with Redis, and logs each kind once a minute. What a server or a connection says is never
// repeated, only its kind: an error reply may quote arguments, which are keys and bodies.
type troubles struct {
	mu   sync.Mutex
	said map[string]time.Time // by kind; the kinds are a bounded set of words

	log   *slog.Logger
	count func(cause)
}

// newTroubles returns one that keeps quiet until report is called.
func newTroubles() *troubles {
	return &troubles{said: make(map[string]time.Time), log: slog.New(slog.DiscardHandler), count: func(cause) {}}
}

// report says where to. It is called before anything happens.
func (t *troubles) report(log *slog.Logger, count func(cause)) { t.log, t.count = log, count }

// call takes the end of a call.
func (t *troubles) call(err error) {
	if kind := kindOf(err); kind != "" {
		t.say(slog.LevelWarn, "error "+kind, "herdgate: Redis does not do what it is asked: hits are served as long as it answers, else requests go on without it", "kind", kind)
	}
}

// panicked takes what a client panicked with, nil for nothing. The stack says where that was; the value could be anything.
func (t *troubles) panicked(value any) {
	if value != nil {
		t.say(slog.LevelError, "panic", "herdgate: the Redis client, or a hook in it, panicked: going on without Redis", "stack", string(debug.Stack()))
	}
}

// noLock takes why there is no fleet lock.
func (t *troubles) noLock(reply string, err error) {
	kind := kindOf(err)
	switch {
	case errors.Is(err, errNotAsked):
		kind = "not asked"
	case err == nil && reply != "":
		kind = word(reply)
	case err == nil:
		kind = "unread" // somebody else has computed it, and it cannot be read
	}
	t.say(slog.LevelWarn, "no lock "+kind, "herdgate: no lock in Redis: collapsing inside this process only, storing nothing", "kind", kind)
}

// refused takes why Redis did not store a response.
func (t *troubles) refused(reply string) {
	kind := word(reply)
	t.say(slog.LevelWarn, "refused "+kind, "herdgate: Redis did not store a response", "kind", kind)
}

// breaker takes a change of a breaker's state.
func (t *troubles) breaker(name, calls string, from, to gobreaker.State) {
	switch {
	case from == gobreaker.StateClosed:
		t.count(causeBreakerOpen)
		t.say(slog.LevelWarn, "open "+calls, "herdgate: Redis does not answer: going on without it", "node", name, "calls", calls)
	case to == gobreaker.StateClosed:
		t.say(slog.LevelInfo, "closed "+calls, "herdgate: Redis answers again", "node", name, "calls", calls)
	}
}

func (t *troubles) say(level slog.Level, kind, message string, args ...any) {
	now := time.Now()
	t.mu.Lock()
	last, said := t.said[kind]
	if said && now.Sub(last) < sayEvery {
		t.mu.Unlock()
		return
	}
	t.said[kind] = now
	t.mu.Unlock()
	t.log.Log(context.Background(), level, message, args...)
}

// kindOf names the kind of an error: the first word of an error reply, or what befell the connection. "" is no trouble, or one that is told already.
func kindOf(err error) string {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, errNotAsked), errors.Is(err, errTooBrief), errors.Is(err, errPanicked):
		return ""
	case isReply(err):
		return word(err.Error())
	case timedOut(err):
		return "timeout"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return "connection lost"
	}
	return "no connection"
}

// quiet are the replies that are no trouble: they are part of how we work.
var quiet = map[string]bool{"redis:": true, "NOSCRIPT": true, "WRONGTYPE": true, "MOVED": true, "ASK": true}

// replies are the error replies that are logged by their name. Anything else is "ERR": a word of
// a server's, or of a proxy's in its place, could be anything.
var replies = map[string]bool{
	"BUSY": true, "CLUSTERDOWN": true, "CROSSSLOT": true, "EXECABORT": true, "LOADING": true, "MASTERDOWN": true, "MISCONF": true,
	"NOAUTH": true, "NOPERM": true, "NOREPLICAS": true, "OOM": true, "READONLY": true, "TRYAGAIN": true, "UNKILLABLE": true, "WRONGPASS": true,
}

// word is the kind of an error reply.
func word(reply string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(reply, "-"), " ")
	switch {
	case quiet[first]:
		return ""
	case replies[first]:
		return first
	}
	return "ERR"
}
