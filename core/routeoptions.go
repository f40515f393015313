package core

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/route"
)

// A RouteOption changes how one route is cached. Options are given to an adapter's
// Cache; a later one wins over an earlier one of the same name, except that lists of names (KeyQuery, KeyHeader, …) add up.
//
// Which word on caching counts, of all that there are: the first of
//
//  1. UnsafeCacheControl
//  2. the first valid field that Targeted names
//  3. the response's Cache-Control, then its Expires
//  4. SetFresh
//  5. FreshFor and FreshForStatus
//  6. HeuristicFreshness
//
// decides; StaleFor and StaleIfError give way to the response's own windows in the same way. Nothing of that makes a response
// shareable that sets a cookie, varies on credentials, or was made for a request with credentials, nor one to which middleware
// outside said no-store, private or no-cache.
//
// Its parameter is internal: options come from this package and from the adapters.
type RouteOption func(*route.Config) error

// Check returns the error with which Cache would panic on these options: every
// invalid one, joined. It returns nil if all are valid.
func Check(opts ...RouteOption) error {
	_, err := configure(opts)
	return err
}

func configure(opts []RouteOption) (*route.Config, error) {
	cfg := route.Default()
	var errs []error
	for _, opt := range opts {
		if opt == nil {
			errs = append(errs, errors.New("herdgate: a route option is nil: remove it"))
			continue
		}
		if err := opt(&cfg); err != nil {
			errs = append(errs, err)
		}
	}
	if cfg.PerUser && cfg.KeyBy == nil {
		errs = append(errs, errors.New("herdgate: PerUser needs to know who the user is: add the adapter's KeyBy"))
	}
	if cfg.PerUser && cfg.Public {
		errs = append(errs, errors.New("herdgate: Public and PerUser contradict each other: keep one"))
	}
	if cfg.HoldFor < cfg.LockFor {
		errs = append(errs, fmt.Errorf("herdgate: HoldFor(%v) is shorter than LockFor(%v): raise HoldFor", cfg.HoldFor, cfg.LockFor))
	}
	return &cfg, errors.Join(errs...)
}

// FreshFor says how long a 200 response of the route is fresh if the response itself
// does not say so by Cache-Control or Expires. Default: none, only what the response
// says. d must be positive; d counts from the moment the response was complete.
//
// With FreshFor a stale copy is also served for as long again while one request
// refreshes it (see StaleFor), and for a minute when refreshing fails (see StaleIfError).
func FreshFor(d time.Duration) RouteOption { return FreshForStatus(http.StatusOK, d) }

// FreshForStatus is FreshFor for another status, such as 404 or 301. Statuses that
// are failures (500, 502, 503, 504) and those that are never stored (1xx, 206, 304) are refused.
func FreshForStatus(status int, d time.Duration) RouteOption {
	return func(c *route.Config) error {
		switch status {
		case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
			http.StatusPartialContent, http.StatusNotModified:
			return fmt.Errorf("herdgate: FreshForStatus(%d): a response with this status is never stored for a fixed time", status)
		}
		if status < 200 || status > 999 {
			return fmt.Errorf("herdgate: FreshForStatus(%d): give it a final HTTP status, 200 to 999", status)
		}
		if d <= 0 {
			return fmt.Errorf("herdgate: FreshFor(%v): the lifetime must be positive; leave the option out to use only what the response says", d)
		}
		if c.FreshFor == nil {
			c.FreshFor = make(map[int]time.Duration)
		}
		c.FreshFor[status] = d
		return nil
	}
}

// StaleFor says how long after its freshness a copy is still served at once while one
// request refreshes it (stale-while-revalidate, RFC 5861 3). Default: equal to the
// lifetime that FreshFor gave, else what the response says. Zero turns it off. A
// response that says stale-while-revalidate itself wins, and must-revalidate,
// proxy-revalidate, s-maxage and no-cache forbid stale copies in every form.
func StaleFor(d time.Duration) RouteOption {
	return func(c *route.Config) error { return setNotNegative(&c.StaleFor, "StaleFor", d) }
}

// StaleIfError says how long after its freshness a copy stands in for a failure of
// the handler (stale-if-error, RFC 5861 4). Default: one minute if FreshFor is set,
// else what the response says. Zero turns it off. Precedence as with StaleFor.
func StaleIfError(d time.Duration) RouteOption {
	return func(c *route.Config) error { return setNotNegative(&c.StaleIfError, "StaleIfError", d) }
}

// HeuristicFreshness guesses how long a response is fresh that names no lifetime but has a Last-Modified: a tenth of the time from
// that to its Date, at most longest (RFC 9111 4.2.2). Default: nothing is guessed. longest must be positive.
//
// It applies to the statuses that RFC 9110 15.1 names (200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501), and to others but failures
// if the response says public; with a query in the URL, too. It gives way to FreshFor, SetFresh, and every word on the matter in any field
// that is read here: a lifetime of whatever value, no-store, private, no-cache, Pragma: no-cache. Such a response is never served
// stale, whatever StaleFor, StaleIfError and OverStale say, and must-revalidate does not make it shareable in spite of an Authorization.
//
// As with FreshFor, the route that computes a response decides: another route with the same key answers from what it stored.
func HeuristicFreshness(longest time.Duration) RouteOption {
	return func(c *route.Config) error { return setPositive(&c.Heuristic, "HeuristicFreshness", longest) }
}

// LockFor is the lifetime of the lock in Redis: how long a holder that died may
// block its key. Default 3 s, at least 100 ms. It need not cover the work: a watchdog extends the
// lock while the work goes on, up to HoldFor.
func LockFor(d time.Duration) RouteOption {
	return func(c *route.Config) error {
		if d < 100*time.Millisecond {
			return fmt.Errorf("herdgate: LockFor(%v): a lock below 100 ms is lost to an ordinary pause; the default is 3 s", d)
		}
		c.LockFor = d
		return nil
	}
}

// HoldFor is the hold cap: the longest time for which one computation keeps the lock
// of its key. Default 30 s, not below LockFor. At the cap the lock and the right to store end, and one
// loser is elected; the handler itself goes on unless HoldCancels is given.
func HoldFor(d time.Duration) RouteOption {
	return func(c *route.Config) error { return setPositive(&c.HoldFor, "HoldFor", d) }
}

// HoldCancels makes the hold cap a deadline of the context that the handler sees. Without it a cached
// handler has no deadline: its work belongs to the key and not to one client.
func HoldCancels() RouteOption {
	return func(c *route.Config) error { c.HoldCancels = true; return nil }
}

// WaitFor is the longest time a loser waits for the winner's response before it
// gets a degraded answer; the request's own deadline ends the wait too. Default 5 s.
// Below LockFor, a loser does not outlive a holder that died; 200 to 500 ms suits
// routes where a fast degraded answer beats a late one.
func WaitFor(d time.Duration) RouteOption {
	return func(c *route.Config) error { return setPositive(&c.WaitFor, "WaitFor", d) }
}

// PollEvery sets the bounds between which the first poll of a waiting process is
// drawn. Default 20 to 50 ms; later polls grow to 250 ms (or to longest, if that is
// more). Polls are the safety net below the announcement of the winner.
func PollEvery(shortest, longest time.Duration) RouteOption {
	return func(c *route.Config) error {
		if shortest < time.Millisecond || longest < shortest {
			return fmt.Errorf("herdgate: PollEvery(%v, %v): need 1 ms <= shortest <= longest", shortest, longest)
		}
		c.PollMin, c.PollMax = shortest, longest
		return nil
	}
}

// MaxBody is the largest response body that is stored, in bytes. Default 1 MiB. A larger response is
// passed on to its client as it is written and the others compute their own. Each computation holds up to so much in memory.
// Processes that share a namespace need the same: one with a smaller limit takes larger responses for damaged and removes them.
func MaxBody(bytes int64) RouteOption {
	return func(c *route.Config) error {
		if bytes <= 0 {
			return fmt.Errorf("herdgate: MaxBody(%d): the limit must be positive; leave the option out for 1 MiB", bytes)
		}
		c.MaxBody = bytes
		return nil
	}
}

// Name labels the route in logs. It is never part of a key. Default: none.
func Name(name string) RouteOption {
	return func(c *route.Config) error { c.Name = name; return nil }
}

// Public declares that the response is the same for everyone, whoever asks:
// cookies and credentials of requests are ignored and hidden from the handler. A
// response that says private, no-store or sets a cookie is still not shared.
func Public() RouteOption {
	return func(c *route.Config) error { c.Public = true; return nil }
}

// PerUser declares that KeyBy names the user, so that requests with credentials are
// cached under their own key. It needs the adapter's KeyBy.
func PerUser() RouteOption {
	return func(c *route.Config) error { c.PerUser = true; return nil }
}

// IgnoreCookies declares that the response does not depend on cookies: they are hidden from the handler.
func IgnoreCookies() RouteOption {
	return func(c *route.Config) error { c.IgnoreCookies = true; return nil }
}

// KeyQuery makes only the named query parameters part of the key, in any order.
// Default: the whole query exactly as received. The handler still sees all of it.
func KeyQuery(names ...string) RouteOption {
	return func(c *route.Config) error {
		return setNames(&c.KeyQuery, "KeyQuery", names, isParameter, nil)
	}
}

// IgnoreQuery drops the named query parameters from the key. A name that ends in "*"
// names all with this beginning ("utm_*"). The handler still sees them.
func IgnoreQuery(names ...string) RouteOption {
	return func(c *route.Config) error {
		return setNames(&c.IgnoreQuery, "IgnoreQuery", names, isParameter, nil)
	}
}

// KeyHeader makes the values of these request headers part of the key. A header that
// carries credentials (KeyHeader("Authorization")) is thereby covered: requests with
// different values never share, and each is cached under its own key. Only hashes of values are stored.
func KeyHeader(names ...string) RouteOption {
	return func(c *route.Config) error {
		return setNames(&c.KeyHeaders, "KeyHeader", names, headers.IsToken, textproto.CanonicalMIMEHeaderKey)
	}
}

// KeyCookie makes the values of these cookies part of the key and hides all others from the
// handler. Cookies are thereby covered. Only hashes of values are stored.
func KeyCookie(names ...string) RouteOption {
	return func(c *route.Config) error {
		return setNames(&c.KeyCookies, "KeyCookie", names, headers.IsToken, nil)
	}
}

// NormaliseVary compares the request headers that a response's Vary names by what they mean, and not by how they are written (RFC 9111
// 4.1), so that fewer variants are computed and stored: the members of Accept-Language in any order, if their weights are the same
// ("en, de;q=0.50" is "de;q=0.5, en"), and other headers without the spaces around the commas of a list. Headers that carry credentials, and those of
// KeyHeader, stay as they are. Default: only Accept-Encoding, and case and spaces in Accept-Language, are normalised.
//
// It is wrong for a handler that reads more into a header than its specification says: one that takes the first of two
// languages of equal weight for the preferred one (RFC 9110 12.5.4: that cannot be relied upon) answers "en, de" with English, and
// whoever sends "de, en" gets that copy. A quoted string is left alone, but a list in which spaces do matter is not recognised.
//
// Routes with and without it have keys of their own.
func NormaliseVary() RouteOption {
	return func(c *route.Config) error { c.NormaliseVary = true; return nil }
}

// Targeted names response fields that are meant for this cache, such as CDN-Cache-Control (RFC 9213). Of several the first that a
// response has counts, and then neither its Cache-Control nor its Expires does. A field that is empty or does not
// parse as a structured Dictionary is ignored. The fields are passed on. Default: none.
func Targeted(names ...string) RouteOption {
	return func(c *route.Config) error {
		return setNames(&c.Targeted, "Targeted", names, headers.IsToken, textproto.CanonicalMIMEHeaderKey)
	}
}

// HonourRequestDirectives makes the Cache-Control of requests count (RFC 9111 5.2.1): no-cache, max-age and min-fresh have a
// stored response validated or computed again, max-stale has a stale one served where the response does not forbid it,
// no-store bypasses the cache, only-if-cached gets 504 where nothing is stored. Pragma: no-cache counts where there is no
// Cache-Control. Default: all of them are ignored, so that no client can force a computation.
func HonourRequestDirectives() RouteOption {
	return func(c *route.Config) error { c.HonourRequest = true; return nil }
}

// UnsafeCacheControl puts a Cache-Control value of the route's own in place of what responses say by Cache-Control, Expires and
// targeted fields, for handlers that one cannot change: UnsafeCacheControl("max-age=60").
//
// It is unsafe because a handler may have a reason to say private or no-store: its response goes to everybody then. What clients see
// of these fields does not change.
func UnsafeCacheControl(value string) RouteOption {
	return func(c *route.Config) error {
		if strings.TrimSpace(value) == "" || !headers.Valid("Cache-Control", value) {
			return fmt.Errorf("herdgate: UnsafeCacheControl(%q): give the value of a Cache-Control field", value)
		}
		c.CacheControl = value
		return nil
	}
}

// UnsafeOmitSetCookie stores and shares responses that set cookies, without the cookies: only the client whose request ran the
// handler gets them, as if the response said private="set-cookie".
//
// It is unsafe because a response that sets a cookie is often made for one user: make sure that the rest of it is the same for everyone.
func UnsafeOmitSetCookie() RouteOption {
	return func(c *route.Config) error { c.OmitSetCookie = true; return nil }
}

func setNotNegative(to *time.Duration, name string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("herdgate: %s(%v): must not be negative; 0 turns it off", name, d)
	}
	*to = d
	return nil
}

func setPositive(to *time.Duration, name string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("herdgate: %s(%v): must be positive; leave the option out for the default", name, d)
	}
	*to = d
	return nil
}

// isParameter reports whether a query parameter can have the name, decoded.
func isParameter(name string) bool { return name != "" }

func setNames(to *[]string, option string, names []string, valid func(string) bool, canonical func(string) string) error {
	if len(names) == 0 {
		return fmt.Errorf("herdgate: %s(): name at least one, or leave the option out", option)
	}
	for _, name := range names {
		if !valid(name) {
			return fmt.Errorf("herdgate: %s(%q): nothing can be called that: give one name a string", option, name)
		}
		if canonical != nil {
			name = canonical(name)
		}
		*to = append(*to, name)
	}
	return nil
}
