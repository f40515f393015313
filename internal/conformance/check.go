package conformance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/herdgate/herdgate/core"
)

// expect waits for the responses of a group and looks at them.
func (w *world) expect(name string, want Want, runs int) {
	w.t.Helper()
	group := w.groups[name]
	if len(group) == 0 {
		w.t.Fatalf("nobody asked for %q", name)
	}
	w.until(fmt.Sprintf("%d responses", len(group)), patience, func() bool { return w.finished(name) == len(group) })

	roles := map[core.Role]int{}
	made := map[string]bool{}
	for _, x := range group {
		if want.Cut {
			if x.err == nil {
				w.t.Fatalf("the client was told that %q with status %d was all", clip(x.received()), x.status)
			}
			continue
		}
		if x.err != nil {
			w.t.Fatalf("%s %s: %v", x.req.Method, x.req.Target, x.err)
		}
		o := w.outcome(x.id)
		roles[o.Role]++
		if why := w.wrong(x, o); why != "" {
			w.t.Fatalf("%s\n%s", why, show(x, o))
		}
		if why := w.unwanted(x, o, want); why != "" {
			w.t.Fatalf("%s\n%s", why, show(x, o))
		}
		if n := x.header.Get(runHeader); made[n] && want.Distinct {
			w.t.Fatalf("run %s of the handler made more than one response\n%s", n, show(x, o))
		} else {
			made[n] = true
		}
	}
	for role, n := range want.Roles {
		if roles[role] != n {
			w.t.Fatalf("%d requests were %s, want %d: %v", roles[role], role, n, roles)
		}
	}
	if got, _ := w.origin.count(); runs > 0 && got != runs {
		w.t.Fatalf("the handler ran %d times so far, want %d; roles: %v", got, runs, roles)
	}
}

// wrong returns what is wrong with a response whatever the case is about, or "".
func (w *world) wrong(x *exchange, o core.Outcome) string {
	all := members(x.header)
	if len(all) == 0 {
		if o.Role == core.RoleWinner && o.Status == 0 && x.status == http.StatusInternalServerError {
			return "" // the handler panicked: this is the response of the recovery outside
		}
		return "no Cache-Status"
	}
	if len(all) > max(1, w.c.Caches) {
		return fmt.Sprintf("%d members of ours in Cache-Status", len(all))
	}
	if why := disagrees(ours(x.header), o); why != "" {
		return why
	}
	if x.header.Get("Warning") != "" {
		return "a Warning, which RFC 9111 has done away with"
	}
	if o.Role == core.RoleHit || o.Role == core.RoleStale {
		if age := x.header.Values("Age"); len(age) != 1 || strings.Trim(age[0], "0123456789") != "" || age[0] == "" {
			return fmt.Sprintf("Age is %q on a response that was stored", age)
		}
	}
	if o.Role == core.RoleDegraded {
		if cc := x.header.Values("Cache-Control"); !slices.Equal(cc, []string{"no-store"}) {
			return fmt.Sprintf("Cache-Control is %q on a degraded answer", cc)
		}
		if x.status == http.StatusServiceUnavailable {
			if s, err := strconv.Atoi(x.header.Get("Retry-After")); err != nil || s < 1 {
				return fmt.Sprintf("Retry-After is %q", x.header.Get("Retry-After"))
			}
		}
	}
	return w.torn(x)
}

// torn returns in which way a response is not what one run of the handler made, or "".
func (w *world) torn(x *exchange) string {
	if n := len(x.header.Values(runHeader)); n > 1 {
		return fmt.Sprintf("%d runs made this", n)
	}
	n, err := strconv.Atoi(x.header.Get(runHeader))
	if err != nil {
		return "" // a degraded answer, or the application's answer to an error
	}
	r, ok := w.origin.run(n)
	if !ok {
		return fmt.Sprintf("there was no run %d", n)
	}
	body := x.received()
	switch {
	case x.status == http.StatusNotModified && r.status == http.StatusOK, x.req.Method == http.MethodHead:
		if body != "" {
			return fmt.Sprintf("a body of %d bytes, where there is none", len(body))
		}
		if length := x.header.Get("Content-Length"); length != "" && x.status != http.StatusNotModified && length != strconv.Itoa(len(r.body)) {
			return fmt.Sprintf("Content-Length %s; GET has %d bytes", length, len(r.body))
		}
		return ""
	case x.status == http.StatusPartialContent && r.status == http.StatusOK:
		return "" // a range of it
	case !r.whole:
		return fmt.Sprintf("part of what run %d was making, as if it were all", n)
	case x.status != r.status:
		return fmt.Sprintf("status %d, run %d made %d", x.status, n, r.status)
	case body != r.body:
		return fmt.Sprintf("%d bytes, run %d made %d: %q", len(body), n, len(r.body), clip(r.body))
	}
	return ""
}

// disagrees returns where the Cache-Status and the outcome of a response contradict each other, or "".
func disagrees(status map[string]string, o core.Outcome) string {
	_, hit := status["hit"]
	_, collapsed := status["collapsed"]
	_, stored := status["stored"]
	fwd := status["fwd"]
	ttl, err := strconv.Atoi(status["ttl"])
	switch o.Role {
	case core.RoleHit, core.RoleStale:
		if !hit || fwd != "" || err != nil || (ttl < 0) != (o.TTL < 0) || o.Role == core.RoleHit && ttl < 0 {
			return fmt.Sprintf("Cache-Status %v of a %s", status, o.Role)
		}
	case core.RoleWinner:
		if hit || !slices.Contains([]string{"uri-miss", "vary-miss", "miss", "stale", "request"}, fwd) || fwd != o.Forward {
			return fmt.Sprintf("Cache-Status %v of a winner", status)
		}
	case core.RoleLocalWaiter, core.RoleRemoteWaiter:
		if hit || fwd == "" || !collapsed {
			return fmt.Sprintf("Cache-Status %v of a %s", status, o.Role)
		}
	case core.RoleParallel, core.RoleDegraded:
		if hit || fwd == "" {
			return fmt.Sprintf("Cache-Status %v of role %s", status, o.Role)
		}
	case core.RoleBypass:
		if hit || fwd != "bypass" && fwd != "method" || status["detail"] == "" {
			return fmt.Sprintf("Cache-Status %v of a bypass", status)
		}
	default:
		return fmt.Sprintf("no role: %+v", o)
	}
	if _, there := status["key"]; there {
		return "Cache-Status tells the key"
	}
	if stored != o.Stored {
		return fmt.Sprintf("Cache-Status says stored: %v, the outcome %v", stored, o.Stored)
	}
	return ""
}

// unwanted returns in what a response differs from the expected, or "".
func (w *world) unwanted(x *exchange, o core.Outcome, want Want) string {
	status := want.Status
	if status == 0 {
		status = http.StatusOK
	}
	made := x.header.Get(runHeader)
	switch {
	case status > 0 && x.status != status:
		return fmt.Sprintf("status %d, want %d", x.status, status)
	case want.Run > 0 && made != strconv.Itoa(want.Run):
		return fmt.Sprintf("made by run %q, want %d", made, want.Run)
	case want.Run < 0 && made != "":
		return fmt.Sprintf("made by run %s, want none", made)
	case want.Body != "" && x.received() != want.Body:
		return fmt.Sprintf("body %q, want %q", clip(x.received()), clip(want.Body))
	case want.Role != "" && o.Role != want.Role:
		return fmt.Sprintf("role %q, want %q", o.Role, want.Role)
	case want.Infos != nil && !slices.Equal(x.infos, want.Infos):
		return fmt.Sprintf("1xx responses %v, want %v", x.infos, want.Infos)
	case w.c.H2 && x.proto != "HTTP/2.0":
		return "spoken was " + x.proto
	}
	for _, line := range want.Header {
		if why := field(x.header, strings.ReplaceAll(line, "{id}", x.id)); why != "" {
			return why
		}
	}
	ours := ours(x.header)
	for param := range strings.FieldsSeq(want.Cache) {
		if name, most, ok := strings.Cut(param, "<"); ok {
			if got, err := strconv.Atoi(ours[name]); err != nil || got >= number(most) {
				return fmt.Sprintf("Cache-Status %v, want %s", ours, param)
			}
			continue
		}
		name, value, valued := strings.Cut(strings.TrimPrefix(param, "!"), "=")
		got, there := ours[name]
		if strings.HasPrefix(param, "!") == there || valued && got != value {
			return fmt.Sprintf("Cache-Status %v, want %s", ours, param)
		}
	}
	return ""
}

// field returns in what a header differs from what a line of Want.Header says, or "".
func field(h http.Header, line string) string {
	if name, ok := strings.CutPrefix(line, "!"); ok {
		if got := h.Values(name); len(got) > 0 {
			return fmt.Sprintf("%s is there: %q", name, got)
		}
		return ""
	}
	name, value, valued := strings.Cut(line, ": ")
	got := h.Values(name)
	if strings.HasPrefix(name, "Trailer/") {
		got = h[name]
	}
	switch {
	case len(got) == 0:
		return name + " is not there"
	case valued && strings.Join(got, " | ") != value:
		return fmt.Sprintf("%s is %q, want %q", name, got, value)
	}
	return ""
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "…"
	}
	return s
}

func show(x *exchange, o core.Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "request %s to process %d: %s %s %q\n", x.id, x.req.At, x.req.Method, x.req.Target, x.req.Header)
	fmt.Fprintf(&b, "%d %q\n", x.status, clip(x.received()))
	for _, name := range slices.Sorted(maps.Keys(x.header)) {
		fmt.Fprintf(&b, "  %s: %q\n", name, x.header[name])
	}
	fmt.Fprintf(&b, "%+v", o)
	return b.String()
}
