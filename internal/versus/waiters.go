package main

import (
	"fmt"
	"time"
)

// waiters measures what a request costs in memory while its response is being computed: by itself, or by somebody for whom it waits.
func waiters(c config, s *redisServer) (table, error) {
	t := &waiterTable{clients: 5000, bytes: make(map[string]float64)}
	work := 3 * time.Second
	if c.quick {
		t.clients, work = 200, time.Second
	}
	for _, x := range c.with(func(x contestant) bool { return x.cache == bare || x.cache == floorRedis || x.cache == gateRedis }) {
		progress("waiters: %s", x.name())
		used, err := waiting(x, s, t.clients, work)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name(), err)
		}
		t.contestants = append(t.contestants, x)
		t.bytes[x.name()] = used
	}
	return t, nil
}

// waiting returns how many bytes each of n requests holds half-way through the work.
func waiting(x contestant, s *redisServer, n int, work time.Duration) (float64, error) {
	fleet, pool, end, err := connected(orders{Work: work}, x, s, 1, n)
	if err != nil {
		return 0, err
	}
	defer end()
	idle, err := fleet[0].counters("?collect")
	if err != nil {
		return 0, err
	}
	answered := make(chan error, 1)
	go func() { answered <- pool.each(pool.all, request(fmt.Sprintf("%s%d/herd", pathPages, pageHead)), nil) }()
	time.Sleep(work * 2 / 3)
	busy, err := fleet[0].counters("?collect")
	if err != nil {
		return 0, err
	}
	select {
	case err := <-answered:
		return 0, fmt.Errorf("the work was over before the memory was measured (%v)", err)
	default:
	}
	return (float64(busy.InUse) - float64(idle.InUse)) / float64(n), <-answered
}
