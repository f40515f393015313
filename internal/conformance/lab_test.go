package conformance

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/herdgate/herdgate/core"
)

// adapters are the hosts with an adapter of their own, and chi.
func adapters() []Host { return []Host{NetHTTP(), Chi(), Gin(), Echo(), Fiber()} }

// A site is a host that serves one handler behind a gate, with a client.
type site struct {
	t      *testing.T
	gate   *core.Gate
	base   string
	client *http.Client
}

func newSite(t *testing.T, h Host, b core.Backend, handle func(Call) error, opts ...core.RouteOption) *site {
	t.Helper()
	gate, err := core.New(b, core.Logger(silent))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	stop := h.Serve(&App{
		Gate: gate, Options: opts, Caches: 1, Handle: handle,
		Before: func(Call) bool { return true }, After: func(Call, core.Outcome) {},
	}, ln)
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if err := gate.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &site{t, gate, "http://" + ln.Addr().String(), &http.Client{Transport: transport, CheckRedirect: noRedirect, Timeout: patience}}
}

// An answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) cacheStatus() string { return strings.Join(a.header["Cache-Status"], ", ") }

// ask sends a request. Each of its header lines is "Name: value"; Host is one.
func (s *site) ask(method, target, body string, lines ...string) answer {
	s.t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.base, content)
	if err != nil {
		s.t.Error(err)
		return answer{}
	}
	path, query, has := strings.Cut(target, "?")
	req.URL.Opaque, req.URL.RawQuery, req.URL.ForceQuery = path, query, has // as it is written
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Errorf("%s %s %q: %v", method, target, lines, err)
		return answer{}
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%s %s %q: %v", method, target, lines, err)
	}
	return answer{resp.StatusCode, resp.Header, string(got)}
}
