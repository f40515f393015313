package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/herdgate/herdgate/core"
	"github.com/herdgate/herdgate/internal/redistest"
)

// Nothing by which users are told apart is in Redis in clear, neither in keys nor in values, whichever option lets its request be cached.
func TestSecretsAreNotStored(t *testing.T) {
	const secret = "s3cr3t"
	credentials := []string{
		"Authorization: Bearer " + secret, "Proxy-Authorization: Basic " + secret, "Cookie: session=" + secret + "; lang=" + secret, "X-Api-Key: " + secret,
		"X-Auth-Token: " + secret, "X-Forwarded-User: " + secret, "Cf-Access-Jwt-Assertion: " + secret,
	}
	all := []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "X-Auth-Token", "X-Forwarded-User", "Cf-Access-Jwt-Assertion"}
	hour := core.FreshFor(time.Hour)
	handle := func(c Call) error {
		c.Set("Content-Type", "text/plain")
		c.Set("Vary", "X-Lang")
		c.Write([]byte("the same for everyone"))
		return nil
	}
	rdb, ns := redistest.Start(t).Client(), redistest.Namespace()
	for name, opts := range map[string][]core.RouteOption{
		"public":      {hour, core.Public(), core.IgnoreQuery("token")},
		"key header":  {hour, core.KeyHeader(all...), core.KeyCookie("session", "lang"), core.KeyQuery("page")},
		"not covered": {hour, core.IgnoreQuery("tok*")},
	} {
		s := newSite(t, NetHTTP(), core.Redis(rdb, ns), handle, opts...)
		for range 3 {
			got := s.ask("GET", "/a?page=1&token="+secret, "", append(credentials, "X-Lang: de")...)
			if name != "not covered" && !strings.Contains(got.cacheStatus(), "stored") && !strings.Contains(got.cacheStatus(), "hit") {
				t.Errorf("%s: %s", name, got.cacheStatus())
			}
			s.ask("GET", "/a?page=1&token="+secret, "", "X-Lang: de")
		}
	}

	looked := 0
	for _, key := range redistest.Keys(t, rdb, ns) {
		value := rdb.Get(t.Context(), key).Val()
		if rdb.Type(t.Context(), key).Val() == "set" {
			value = strings.Join(rdb.SMembers(t.Context(), key).Val(), " ")
		}
		if value != "" {
			looked++
		}
		if strings.Contains(key, secret) || strings.Contains(value, secret) {
			t.Errorf("%s = %q", key, value)
		}
	}
	if looked < 5 {
		t.Errorf("only %d values were looked at", looked)
	}
}
