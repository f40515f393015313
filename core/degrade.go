package core

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
	"github.com/herdgate/herdgate/internal/route"
)

// A Degraded is what a loser gets when its wait has ended without a response; see Degrade.
type Degraded func(*route.Config) error

// Degrade says what a loser gets when its wait has ended, above the cap on waiters,
// and while a failing key is left alone. Default: 503 with Retry-After (whole seconds,
// jittered so that clients do not come back in step) and Cache-Control: no-store.
// OverStale and Placeholder may be given together: the copy is tried first.
func Degrade(answers ...Degraded) RouteOption {
	return func(c *route.Config) error {
		var errs []error
		if len(answers) == 0 {
			errs = append(errs, errors.New("herdgate: Degrade(): give it OverStale or Placeholder, or leave it out"))
		}
		for _, answer := range answers {
			if answer == nil {
				errs = append(errs, errors.New("herdgate: Degrade(nil): give it OverStale or Placeholder, or leave it out"))
				continue
			}
			errs = append(errs, answer(c))
		}
		return errors.Join(errs...)
	}
}

// Placeholder answers with a response of the route's own. It always carries
// Cache-Control: no-store, and the Content-Length of body. header and body may be nil; they are copied.
func Placeholder(status int, header http.Header, body []byte) Degraded {
	return func(c *route.Config) error {
		if status < 200 || status > 999 {
			return fmt.Errorf("herdgate: Placeholder(%d): give it a final HTTP status, 200 to 999", status)
		}
		header = header.Clone()
		header.Del("Content-Length") // it follows from the body
		c.Placeholder = &route.Placeholder{Status: status, Header: header, Body: bytes.Clone(body)}
		return nil
	}
}

// OverStale answers with a copy whose freshness ended less than d ago, even outside its stale
// window. Responses that forbid stale copies (must-revalidate, s-maxage, …) are excepted.
func OverStale(d time.Duration) Degraded {
	return func(c *route.Config) error { return setPositive(&c.OverStale, "OverStale", d) }
}

// degraded is the answer of last resort. after is how long it makes no sense to come back.
func degraded(cfg *route.Config, after time.Duration, cacheStatus string) host.Reply {
	if p := cfg.Placeholder; p != nil {
		h := p.Header.Clone()
		if h == nil {
			h = make(http.Header)
		}
		h.Set("Cache-Control", "no-store")
		return host.Reply{Status: p.Status, Header: headers.Diff(nil, h), Body: p.Body, CacheStatus: cacheStatus}
	}
	seconds := int((after+time.Second-1)/time.Second) + rand.IntN(3) // jitter, so that clients do not come back in step
	return host.Reply{
		Status: http.StatusServiceUnavailable,
		Header: []headers.Field{
			{Op: headers.Set, Name: "Cache-Control", Value: "no-store"},
			{Op: headers.Set, Name: "Content-Type", Value: "text/plain; charset=utf-8"},
			{Op: headers.Set, Name: "Retry-After", Value: strconv.Itoa(max(1, seconds))},
		},
		Body:        []byte("The response is being prepared. Try again in a moment.\n"),
		CacheStatus: cacheStatus,
	}
}
