package core

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/rfc9111"
)

// notForEverybody are the request headers by which one client asks for a part of the response or for news
// only. A winner's request represents everybody, so the handler does not see them.
var notForEverybody = []string{"Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}

// compute runs the handler with a grant and reports how that ended, exactly once and whatever happens:
// a panic, Goexit and http.ErrAbortHandler go on to the framework after it.
//
// The work belongs to the key and not to the client: the handler's context keeps the request's
// values but not its cancellation. The response is captured, judged, stored, and only then sent, so that the
// client's next request is a hit and a slow reader delays nobody.
//
// seen is what the request found in the store. If it has a validator the handler is asked whether it is still current,
// and a 304 makes it fresh for everybody (RFC 9111 4.3).
func (m *middleware) compute(rq *request, o *Outcome, gr *grant, seen stored) {
	o.Role, o.Cause = RoleWinner, string(gr.cause)
	m.gate.stats.computations.add(o.Cause)
	var once sync.Once
	report := func(c completion) { once.Do(func() { gr.report(c) }) }
	defer report(completion{result: resultFailed})

	x := rq.x
	copied := m.usable(rq, seen.entry)
	conditions := gr.conditions(seen, copied)
	h := &hints{}
	ctx := context.WithValue(context.WithoutCancel(x.Context()), insideKey{m.gate}, true)
	ctx = context.WithValue(ctx, hintsKey{}, h)
	ctx, cancel := context.WithCancel(ctx)
	if m.cfg.HoldCancels {
		ctx, cancel = context.WithTimeout(ctx, m.cfg.HoldFor)
	}
	var res host.Result
	returned := false
	defer func() {
		if !returned {
			o.Detail = "panic"
		}
		// A response that went straight to the client may still be on its way: Fiber sends a stream after the
		// handler has returned, and what it reads from may hang on this context.
		if !res.Passed {
			cancel()
		}
	}()
	res = x.Run(host.Call{
		Context: ctx,
		Method:  http.MethodGet,
		Drop:    slices.Concat(notForEverybody, m.hidden),
		Set:     slices.Concat(rq.set, conditions),
		Limit:   m.cfg.MaxBody,
		Passing: func(reason string) string {
			report(completion{result: rq.notShareable()})
			context.AfterFunc(x.Context(), cancel) // from here on the work is its client's alone
			o.Detail = reason
			return o.cacheStatus()
		},
	})
	returned = true
	if res.Passed {
		return
	}

	o.Forwarded = res.Status
	fields := headers.Strip(headers.Diff(res.Before, res.After), res.After)
	if res.Status == http.StatusNotModified && conditions != nil && ctx.Err() == nil {
		if !rfc9111.Confirms(fields, copied.Header) {
			m.refuse(rq, o, copied, report)
			return
		}
		fields = rfc9111.Freshen(copied.Header, fields)
		res = freshened(res, copied, fields)
	}
	v := m.judge(rq, res, h)
	if ctx.Err() != nil {
		v.Failure, v.Reason = true, "canceled" // HoldCancels: the work was cut short
	}
	e := m.newEntry(rq, gr, res, fields, v)
	if v.Reason == "" && !(&entry.Record{Names: e.Vary}).Fits() {
		v.Reason = "vary-many"
		m.gate.varies.Invalidate(rq.hash) // the names of a handler that has mended its ways may fit again
	}
	o.Status, o.Detail = res.Status, v.Reason
	c := completion{result: resultStored, entry: e, at: rq.place(e.Vary), ttl: lifetime(e, v)}
	switch {
	case v.Failure:
		c = completion{result: resultFailed}
	case v.Reason != "":
		c = completion{result: rq.notShareable()}
	}
	report(c)
	became := gr.await()

	if v.Failure && copied != nil && became != verdictInvalidated && became != verdictReplaced && rq.mayHaveStale(copied, copied.StaleIfError, m.gate.backend.now()) {
		m.serveCopy(rq, o, RoleStale, copied, m.gate.backend.now(), v.Reason)
		return
	}
	o.Stored = c.result == resultStored && became == verdictDone && gr.fleet
	if c.result == resultStored && !o.Stored {
		o.Detail = "not-stored"
	}
	o.TTL = e.Fresh - e.Age
	switch {
	case res.Flaw != "": // its own client gets it as it is: a body that falls short of its length, trailers
		fields = headers.Diff(res.Before, res.After)
	case len(v.Omit) == 0:
		fields = e.Header
	}
	m.answer(rq, o, res.Status, fields, "", e.Body)
}

// conditions are the request fields with which the handler is asked whether the copy is still current. There are none
// if it is not certain that the copy was there when the computation was granted: it may have been invalidated.
func (gr *grant) conditions(seen stored, copied *entry.Entry) []headers.Field {
	if copied == nil || copied.Status != http.StatusOK || !gr.locked || seen.head() != gr.seen {
		return nil
	}
	return rfc9111.Conditions(copied.Header, time.Now())
}

// freshened is the response that a handler confirmed with its 304 res: the copy, with fields for its own part of the header.
func freshened(res host.Result, copied *entry.Entry, fields []headers.Field) host.Result {
	res.Status, res.Body = copied.Status, copied.Body
	res.After = make(http.Header)
	maps.Copy(res.After, res.Before)
	headers.Apply(res.After, fields)
	return res
}

// refuse ends a computation whose handler answered 304 for another response than the one that it was asked about (RFC 9111
// 4.3.4): what is current is not known, so the copy goes, and whoever comes next computes from nothing. The client gets the copy
// once more where it may still be served stale and nobody has invalidated it; else it is told.
func (m *middleware) refuse(rq *request, o *Outcome, copied *entry.Entry, report func(completion)) {
	m.gate.count(causeMismatch)
	standsIn := rq.mayHaveStale(copied, max(copied.Stale, copied.StaleIfError), m.gate.backend.now()) && m.gate.holds(rq, copied)
	m.gate.drop(rq.base)
	report(completion{result: resultGaveUp})
	if standsIn {
		m.serveCopy(rq, o, RoleStale, copied, m.gate.backend.now(), string(causeMismatch))
		return
	}
	m.degrade(rq, o, string(causeMismatch), time.Second)
}

// holds reports whether an entry is what is stored now.
func (g *Gate) holds(rq *request, e *entry.Entry) bool {
	_, got, err := g.look(rq)
	return err == nil && got.entry != nil && got.entry.Token == e.Token
}

// await waits for what became of the report, but not longer than a request may be blocked on Redis.
func (gr *grant) await() verdict {
	timer := time.NewTimer(finishBudget)
	defer timer.Stop()
	select {
	case v := <-gr.settled:
		return v
	case <-timer.C:
		return verdictUnknown
	}
}

// judge says whether what the handler did may be stored and shared.
func (m *middleware) judge(rq *request, res host.Result, h *hints) rfc9111.Verdict {
	fresh, noStore := h.get()
	policy := rfc9111.Policy{
		FreshFor:      m.cfg.FreshFor,
		StaleFor:      m.cfg.StaleFor,
		StaleIfError:  m.cfg.StaleIfError,
		Heuristic:     m.cfg.Heuristic,
		Targeted:      m.cfg.Targeted,
		Override:      m.cfg.CacheControl,
		OmitSetCookie: m.cfg.OmitSetCookie,
		Credentials:   rq.credentials,
		Covered:       func(name string) bool { return covered(m.cfg, name) },
	}
	if fresh > 0 {
		policy.FreshFor = maps.Clone(policy.FreshFor)
		if policy.FreshFor == nil {
			policy.FreshFor = make(map[int]time.Duration)
		}
		policy.FreshFor[res.Status] = fresh
	}
	v := rfc9111.Judge(rfc9111.Response{
		Status: res.Status, Before: res.Before, After: res.After, AcceptEncoding: rq.shown("Accept-Encoding"),
	}, policy, time.UnixMicro(m.gate.backend.now()))
	switch {
	case v.Failure:
	case noStore:
		v.Reason = "no-store"
	case res.Status == 0:
		v.Reason = "empty"
	case res.Flaw == "length", res.Flaw == "error" && res.Status >= 500: // half a response
		v.Reason, v.Failure = res.Flaw, true
	case res.Flaw != "":
		v.Reason = res.Flaw
	}
	return v
}

// notShareable is how a computation ends whose response is for its own client only. If that had credentials, this says
// nothing about what others will get.
func (rq *request) notShareable() result {
	if rq.class == credentialed {
		return resultPersonal
	}
	return resultUncacheable
}

// newEntry is the response as it would be stored. What is stored of the header is what the handler did
// to it; what middleware outside set belongs to one request.
func (m *middleware) newEntry(rq *request, gr *grant, res host.Result, fields []headers.Field, v rfc9111.Verdict) *entry.Entry {
	e := &entry.Entry{
		Grant:        gr.grant,
		Token:        gr.token,
		Key:          rq.key,
		Vary:         union(gr.names, v.Vary),
		Received:     m.gate.backend.now(),
		Age:          v.Age,
		Fresh:        v.Fresh,
		Stale:        v.Stale,
		StaleIfError: v.StaleIfError,
		OverStale:    m.cfg.OverStale,
		MustNotStale: v.MustNotStale,
		Scope:        v.Scope,
		Status:       res.Status,
		Header:       without(fields, v.Omit),
		Body:         res.Body,
	}
	if v.MustNotStale {
		e.OverStale = 0
	}
	at := rq.place(e.Vary)
	if e.VaryKey = at.vary; at.variant != "" {
		e.Generation = gr.generation
	}
	if v.Reason == "" && res.After.Get("Date") == "" { // RFC 9110 6.6.1: a replay is as old as this, not new each time
		e.Header = append(e.Header, headers.Field{Op: headers.Set, Name: "Date", Value: time.Now().UTC().Format(http.TimeFormat)})
	}
	return e
}

// validatableFor is how long after its lifetime an entry with a validator is kept to be validated.
const validatableFor = 10 * time.Minute

// lifetime is how long an entry is of any use, in whatever form it is served.
func lifetime(e *entry.Entry, v rfc9111.Verdict) time.Duration {
	useful := e.Fresh - e.Age + max(e.Stale, e.StaleIfError, e.OverStale)
	if v.Validatable {
		useful = max(useful, 0) + validatableFor
	}
	return useful
}

// without returns the fields but for those that are named.
func without(fields []headers.Field, names []string) []headers.Field {
	if len(names) == 0 {
		return fields
	}
	return slices.DeleteFunc(slices.Clone(fields), func(f headers.Field) bool { return slices.Contains(names, http.CanonicalHeaderKey(f.Name)) })
}

// union keeps the names that are known already: what a key varies on only grows, or processes would
// disagree on where its variants are.
func union(known, more []string) []string {
	names := append(slices.Clone(known), more...)
	slices.Sort(names)
	return slices.Compact(names)
}

// reply answers with an entry, as old as it is at the fleet time now.
func (m *middleware) reply(rq *request, o *Outcome, e *entry.Entry, now int64) {
	age := e.AgeAt(now)
	o.TTL, o.Status = e.FreshAt(now), e.Status
	shown := ""
	if o.Role == RoleHit || o.Role == RoleStale || e.Age > 0 {
		shown = strconv.FormatInt(int64(age/time.Second), 10)
	}
	m.answer(rq, o, e.Status, e.Header, shown, e.Body)
}

// answer sends a response: whole, or what the client's conditions leave of it. They apply to a 200 only (RFC 9110 13.2.1).
func (m *middleware) answer(rq *request, o *Outcome, status int, fields []headers.Field, age string, body []byte) {
	r := host.Reply{Status: status, Header: fields, Age: age, Body: body, CacheStatus: o.cacheStatus()}
	if status == http.StatusOK {
		rq.narrow(&r)
		o.Status = r.Status
	}
	rq.x.Reply(r)
}

// narrow reduces a 200 to a 304 for a client that has it already, or to the range that it asked for, in the order of RFC 9110
// 13.2.2. (If-Match and If-Unmodified-Since are not for caches, 13.1.1.)
func (rq *request) narrow(r *host.Reply) {
	x := rq.x
	if match, since := x.Values("If-None-Match"), x.Values("If-Modified-Since"); match != nil || since != nil {
		modified := headers.Get(r.Header, "Last-Modified")
		if modified == "" {
			modified = headers.Get(r.Header, "Date") // RFC 9111 4.3.2
		}
		if rfc9111.NotModified(match, since, headers.Get(r.Header, "Etag"), modified, time.Now()) {
			r.Status, r.Header, r.Body = http.StatusNotModified, rfc9111.NotModifiedFields(r.Header), nil
			return
		}
	}
	asked := x.Values("Range")
	if asked == nil || x.Method() != http.MethodGet || !rfc9111.RangeApplies(x.Values("If-Range"), r.Header, time.Now()) {
		return
	}
	size := int64(len(r.Body))
	part := rfc9111.Range(asked, size)
	where := headers.Field{Op: headers.Set, Name: "Content-Range", Value: part.ContentRange(size)}
	switch part.Status {
	case http.StatusPartialContent:
		r.Status, r.Header, r.Body = part.Status, append(slices.Clone(r.Header), where), r.Body[part.First:part.First+part.Length]
	case http.StatusRequestedRangeNotSatisfiable:
		r.Status, r.Header, r.Body = part.Status, []headers.Field{where}, nil
	}
}
