package redistest

import "syscall"

// dieWithParent makes the kernel kill the child when the thread that started it ends,
// however that comes about: a test that panics or runs into its timeout cleans nothing
// up. See supervise for why it is the thread that counts.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
