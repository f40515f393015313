package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
)

// process is a server that runs one contestant.
type process struct {
	ready
	contestant contestant
	cmd        *exec.Cmd
	stdin      io.Closer
}

// start starts n processes of a contestant, which share what they keep in Redis.
func start(given orders, c contestant, redis string, n int) (fleet []*process, err error) {
	given.Contestant, given.Redis, given.Namespace = c.name(), redis, "versus-"+rand.Text()[:8]
	o, err := json.Marshal(given)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for range n {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childEnv+"="+string(o))
		cmd.Stderr = os.Stderr
		stdin, err1 := cmd.StdinPipe()
		stdout, err2 := cmd.StdoutPipe()
		if err := errors.Join(err1, err2, cmd.Start()); err != nil {
			stop(fleet)
			return nil, err
		}
		fleet = append(fleet, &process{contestant: c, cmd: cmd, stdin: stdin})
		if err := json.NewDecoder(bufio.NewReader(stdout)).Decode(&fleet[len(fleet)-1].ready); err != nil {
			stop(fleet)
			return nil, fmt.Errorf("%s did not start: %w", c.name(), err)
		}
	}
	return fleet, nil
}

// connected starts processes of a contestant, and connects clients to each in turn. end stops both.
func connected(given orders, x contestant, s *redisServer, processes, clients int) (fleet []*process, pool *connections, end func(), err error) {
	fleet, err = start(given, x, s.addr, processes)
	if err != nil {
		return nil, nil, nil, err
	}
	var addrs []string
	for _, p := range fleet {
		addrs = append(addrs, p.Addr)
	}
	pool, err = connect(addrs, clients)
	if err != nil {
		stop(fleet)
		return nil, nil, nil, err
	}
	return fleet, pool, func() {
		pool.close()
		stop(fleet)
	}, nil
}

func stop(fleet []*process) {
	for _, p := range fleet {
		_ = p.stdin.Close()
	}
	for _, p := range fleet {
		_ = p.cmd.Wait()
	}
}

func (p *process) counters(query string) (c counters, err error) {
	resp, err := http.Get("http://" + p.Admin + "/counters" + query)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	return c, json.NewDecoder(resp.Body).Decode(&c)
}

// profile returns a CPU profile of the next second.
func (p *process) profile() ([]byte, error) {
	resp, err := http.Get("http://" + p.Admin + "/debug/pprof/profile?seconds=1")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}
