// Package fault has the switches by which herdgatetest breaks a backend of core.
package fault

import "sync/atomic"

// Switches are the faults of a backend, all off at first. They are safe for concurrent use.
type Switches struct {
	Fail              atomic.Bool  // no call does anything but fail
	Stall             atomic.Int64 // ns that each call takes longer, within its budget
	LoseLocks         atomic.Bool  // no lock can be renewed
	GrantEveryone     atomic.Bool  // whoever asks for a lock gets it
	DropAnnouncements atomic.Bool  // no process hears that a lock has ended
	Duplicate         atomic.Bool  // each call is made twice
}
