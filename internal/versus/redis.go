package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisServer is the Redis that all contestants use, one after the other.
type redisServer struct {
	addr string
	rdb  *redis.Client
	cmd  *exec.Cmd // nil: somebody else's
	dir  string
}

func openRedis(addr string) (*redisServer, error) {
	s := &redisServer{addr: addr}
	if addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		s.addr = l.Addr().String()
		_ = l.Close()
		_, port, _ := net.SplitHostPort(s.addr)
		if s.dir, err = os.MkdirTemp("", "versus-"); err != nil {
			return nil, err
		}
		s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
		if err := s.cmd.Start(); err != nil {
			return nil, err
		}
	}
	s.rdb = redis.NewClient(&redis.Options{Addr: s.addr})
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := s.rdb.Ping(context.Background()).Err()
		if err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			s.close()
			return nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *redisServer) close() {
	_ = s.rdb.Close()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		_ = os.RemoveAll(s.dir)
	}
}

func (s *redisServer) version() string {
	info, err := s.rdb.Info(context.Background(), "server").Result()
	if err != nil {
		return "unknown"
	}
	_, rest, _ := strings.Cut(info, "redis_version:")
	version, _, _ := strings.Cut(rest, "\r\n")
	return version
}

// commands is how many commands the server has executed, those inside scripts included and INFO excepted, and what clients
// send when they connect.
func (s *redisServer) commands() (calls int64, err error) {
	info, err := s.rdb.Info(context.Background(), "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		command, rest, ok := strings.Cut(line, ":calls=")
		switch {
		case !ok, command == "cmdstat_info", command == "cmdstat_hello", strings.HasPrefix(command, "cmdstat_client"):
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, parseErr := strconv.ParseInt(number, 10, 64)
		err = errors.Join(err, parseErr)
		calls += n
	}
	return calls, err
}
