// Package fleet holds no code: its tests run a service in real processes on one real Redis, and kill, stop
// and continue them. What a goroutine or a fake clock can only play, a process does.
package fleet
