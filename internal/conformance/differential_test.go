package conformance

import "testing"

// seed makes the scripts repeatable; any other is as good.
const seed = 20060102

func TestDifferential(t *testing.T) {
	for _, h := range []Host{Chi(), Gin(), Echo(), Fiber()} {
		t.Run(h.Name, func(t *testing.T) { Differential(t, seed, NetHTTP(), h) })
	}
}

func TestTransparent(t *testing.T) {
	for _, h := range []Host{NetHTTP(), Chi(), Gin(), Echo(), Fiber()} {
		t.Run(h.Name, func(t *testing.T) { Transparent(t, seed, h) })
	}
}
