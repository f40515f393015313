// Package route holds what the options of one route add up to. It is internal so that
// adapters can add options that need the framework's own context (KeyBy, SkipIf), and
// nobody else can.
package route

import (
	"net/http"
	"time"
)

// Absent marks a duration that no option set.
const Absent time.Duration = -1

// Config is what the options of one route add up to.
type Config struct {
	Name string // labels metrics and logs, never in a key

	FreshFor     map[int]time.Duration // by status
	StaleFor     time.Duration         // Absent: what the response says, else the freshness lifetime of FreshFor
	StaleIfError time.Duration         // Absent: what the response says, else a minute with FreshFor
	OverStale    time.Duration         // how much longer a copy may stand in for a degraded answer
	Heuristic    time.Duration         // longest lifetime that is guessed from Last-Modified; 0: none is
	MaxBody      int64                 // bytes

	Targeted      []string // targeted fields that count before Cache-Control, in this order
	HonourRequest bool     // request directives count
	CacheControl  string   // stands in for what responses say; "": they count
	OmitSetCookie bool     // responses are shared without their Set-Cookie

	LockFor     time.Duration // how long a dead holder may block its key
	HoldFor     time.Duration // hold cap: longest time one computation keeps the lock
	HoldCancels bool          // the hold cap is a deadline of the handler's context too
	WaitFor     time.Duration // longest time a loser waits
	PollMin     time.Duration // the first poll of a loser comes after PollMin to PollMax
	PollMax     time.Duration
	Placeholder *Placeholder // what a degraded answer is; nil: 503

	Public        bool // the response is the same for everyone: credentials are ignored and hidden
	PerUser       bool // KeyBy names the user: credentials are covered by it
	IgnoreCookies bool // cookies are ignored and hidden
	KeyQuery      []string
	IgnoreQuery   []string
	KeyHeaders    []string // canonical
	KeyCookies    []string
	NormaliseVary bool // request headers that Vary names are compared by what they mean

	KeyBy func(native any) string // "" = bypass
	Skip  func(native any) bool   // true = bypass
}

// Placeholder is a degraded answer that the route gives itself.
type Placeholder struct {
	Status int
	Header http.Header
	Body   []byte
}

// Default returns the configuration of a route without options.
func Default() Config {
	return Config{
		StaleFor:     Absent,
		StaleIfError: Absent,
		MaxBody:      1 << 20,
		LockFor:      3 * time.Second,
		HoldFor:      30 * time.Second,
		WaitFor:      5 * time.Second,
		PollMin:      20 * time.Millisecond,
		PollMax:      50 * time.Millisecond,
	}
}
