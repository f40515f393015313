package entry

import (
	"math"
	"testing"
	"time"
)

func TestAgeAt(t *testing.T) {
	const received = 1_700_000_000_000_000 // µs
	for _, tt := range []struct {
		name string
		e    Entry
		now  int64
		age  time.Duration
	}{
		{"RFC 9111 4.2.3: resident time", Entry{}, received + 1500, 1500 * time.Microsecond},
		{"RFC 9111 4.2.3: on top of the initial age", Entry{Age: time.Minute}, received + 1e6, time.Minute + time.Second},
		{"clock gone back", Entry{Age: time.Minute}, received - 1e6, time.Minute},
		{"RFC 9111 1.2.2: overflow", Entry{Age: MaxDuration}, math.MaxInt64, MaxDuration},
		{"RFC 9111 1.2.2: overflow of the resident time", Entry{}, math.MaxInt64, MaxDuration},
		{"clock at zero", Entry{}, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.Received = received
			if got := tt.e.AgeAt(tt.now); got != tt.age {
				t.Errorf("AgeAt = %v, want %v", got, tt.age)
			}
		})
	}
}

func TestFreshAt(t *testing.T) {
	e := Entry{Received: 0, Age: time.Second, Fresh: 3 * time.Second}
	for now, want := range map[int64]time.Duration{0: 2 * time.Second, 2e6: 0, 2e6 + 1: -time.Microsecond} {
		if got := e.FreshAt(now); got != want {
			t.Errorf("FreshAt(%d) = %v, want %v", now, got, want)
		}
	}
}

// Whatever an entry says and whatever the time, ages stay in range and do not shrink.
func FuzzAgeAt(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64))
	f.Add(int64(1), int64(0), int64(0), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, age, received, now, later int64) {
		e := Entry{Age: time.Duration(bounded(time.Duration(age))), Received: max(0, received)}
		now, later = max(0, min(now, later)), max(0, now, later)
		first, second := e.AgeAt(now), e.AgeAt(later)
		if first < e.Age || second < first || second > MaxDuration {
			t.Errorf("%v at first, %v later", first, second)
		}
	})
}
