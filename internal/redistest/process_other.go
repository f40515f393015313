//go:build !linux

package redistest

import "syscall"

// dieWithParent has no counterpart outside Linux: there, a test process that dies without
// running its cleanups leaves its servers behind.
func dieWithParent() *syscall.SysProcAttr { return nil }
