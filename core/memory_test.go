package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Memory holds as many bytes as it was given, headers and what it knows about its keys included; what is asked for again and again stays.
func TestMemoryIsBounded(t *testing.T) {
	const room = 256 << 10
	b, err := Memory(room).open()
	if err != nil {
		t.Fatal(err)
	}
	b.announcements(func(string, result) {})
	m := b.(*memory)
	serve := gateOn(t, opens{m}).Mount(FreshFor(time.Hour))
	body := strings.Repeat("x", 1000)
	var o origin
	computed := 0
	for i := range 5000 { // some two hundred find room
		if i%50 == 0 {
			was := o.runs()
			get("/hot", o.answers(0, body)).send(serve)
			computed += int(o.runs() - was)
		}
		get(fmt.Sprintf("/%d", i), o.answers(0, body)).send(serve).want(t, RoleWinner, body)
	}
	if n := m.entries.WeightedSize(); n > room || n < room/2 {
		t.Errorf("%d bytes are held, want most of %d and no more", n, room)
	}
	if computed > 10 {
		t.Errorf("what is asked for again and again was computed %d times", computed)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.keys); n > 2*room/len(body) {
		t.Errorf("%d keys are remembered, of which few are stored", n)
	}
}
