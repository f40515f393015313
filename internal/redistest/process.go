package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Goroutine is the function that waits for a server process to end, one goroutine per
// running server. A test that looks for leaked goroutines while a shared server runs
// ignores it: goleak.IgnoreAnyFunction(redistest.Goroutine).
const Goroutine = "github.com/herdgate/herdgate/internal/redistest.supervise"

const (
	readyTimeout = 20 * time.Second // generous: the race detector and two cores
	pollInterval = 5 * time.Millisecond

	// Ports lie below the range from which the system takes the source ports of outgoing
	// connections. Inside it, a client that dials a server which is down can be given the
	// server's own port as its source, and connects to itself. The cluster bus, 10,000
	// higher, is below the range too.
	minPort, maxPort, busOffset = 10_000, 22_000, 10_000
)

// process is one redis-server with a directory and a port, over all its restarts.
type process struct {
	dir  string
	port int
	args []string
	pass string // requirepass, for the readiness check

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when the child was reaped; nil before the first start
}

var errExited = errors.New("redis-server exited")

// launch starts a redis-server with the arguments that args returns for its port and
// directory, and waits until it answers. A port that somebody else took between our look
// and the server's bind is replaced.
func launch(t TB, args func(port int, dir string) []string) *process {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redistest: redis-server is not installed: run `make deps`, or `apt-get install redis-server redis-tools`, or `brew install redis` (%v)", err)
	}
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	p := &process{dir: dir}
	t.Cleanup(func() {
		p.kill()
		_ = os.RemoveAll(dir) // a left-over directory is no reason to fail a test
	})
	for range 5 {
		if p.port, err = freePort(); err != nil {
			break
		}
		p.args = append([]string{binary}, args(p.port, dir)...)
		p.pass = valueAfter(p.args, "--requirepass")
		if err = p.start(); err == nil || !errors.Is(err, errExited) {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: start %s: %v\n%s", strings.Join(p.args, " "), err, p.logTail())
	}
	return p
}

func (p *process) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)) }

// start starts the child and waits until this child, and not a stranger on the same port,
// answers. On an error no child is left.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(p.dir, "redis.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, log, log, dieWithParent()

	started, done := make(chan error, 1), make(chan struct{})
	go supervise(cmd, started, done)
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.done = cmd, done

	for deadline := time.Now().Add(readyTimeout); ; {
		pid, err := p.ping()
		switch {
		case pid == cmd.Process.Pid:
			return nil
		case err == nil:
			err = fmt.Errorf("process %d answers on its port", pid)
		}
		if time.Now().After(deadline) {
			p.killLocked()
			return fmt.Errorf("not ready after %v: %w", readyTimeout, err)
		}
		select {
		case <-done:
			return fmt.Errorf("%w: %v", errExited, cmd.ProcessState)
		case <-time.After(pollInterval):
		}
	}
}

// supervise starts the child, waits for its end and reaps it.
//
// The trap: Linux sends the parent-death signal when the *thread* that forked ends. Go
// moves goroutines between threads and ends a thread whose locked goroutine returned, so
// a server started from anywhere can be killed in the middle of a test. Here the thread
// is ours until the child has gone.
func supervise(cmd *exec.Cmd, started chan<- error, done chan<- struct{}) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(done)
	err := cmd.Start()
	started <- err
	if err == nil {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}
}

// ping returns the process id of the Redis that answers on the port.
func (p *process) ping() (pid int, err error) {
	conn, err := net.DialTimeout("tcp", p.addr(), time.Second)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	auth := ""
	if p.pass != "" {
		auth = "AUTH " + p.pass + "\r\n"
	}
	if _, err := conn.Write([]byte(auth + "PING\r\nINFO server\r\n")); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	for {
		reply, err := readReply(r)
		if err != nil {
			return 0, err
		}
		if reply[0] == '-' {
			return 0, errors.New(string(bytes.TrimSpace(reply[1:])))
		}
		if reply[0] == '+' { // OK, PONG
			continue
		}
		for line := range strings.Lines(string(reply)) {
			if id, ok := strings.CutPrefix(line, "process_id:"); ok {
				return strconv.Atoi(strings.TrimSpace(id))
			}
		}
		return 0, errors.New("INFO names no process_id")
	}
}

// kill ends the child at once, a stopped one too, and waits until it is gone.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killLocked()
}

func (p *process) killLocked() {
	if p.done == nil {
		return
	}
	_ = p.cmd.Process.Kill() // an error says that it has ended already
	<-p.done
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// stop freezes the child and returns when it is frozen: the signal only asks for it.
func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return nil // no such file outside Linux: take the signal's word for it
		}
		// pid (name) state ...; the name may contain anything
		if rest := stat[bytes.LastIndexByte(stat, ')')+1:]; len(rest) > 1 && rest[1] == 'T' {
			return nil
		}
	}
	return errors.New("not stopped after 5 s")
}

func (p *process) cont() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

// logTail is the end of what the server said, for the message of a failed start.
func (p *process) logTail() string {
	log, err := os.ReadFile(filepath.Join(p.dir, "redis.log"))
	if err != nil {
		return ""
	}
	return string(log[max(0, len(log)-2000):])
}

var ports = struct {
	sync.Mutex
	given map[int]bool
}{given: map[int]bool{}}

// freePort finds a port, with a free one for the cluster bus, that nobody listens on and
// that this process did not give out before.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := minPort + rand.IntN(maxPort-minPort)
		if !ports.given[port] && !ports.given[port+busOffset] && free(port) && free(port+busOffset) {
			ports.given[port], ports.given[port+busOffset] = true, true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", minPort, maxPort)
}

func free(port int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

func itoa(n int) string { return strconv.Itoa(n) }

func valueAfter(args []string, name string) string {
	for i := 0; i+1 < len(args); i++ {
		if args[i] == name {
			return args[i+1]
		}
	}
	return ""
}
