package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// describe says on what was measured.
func describe(s *redisServer) string {
	model := "unknown CPU"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %d cores (shared by the servers, Redis and the load) · %s, %s/%s · Redis %s",
		model, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, s.version())
}

// versions lists what is compared.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var all []string
	for _, m := range info.Deps {
		switch m.Path {
		case "github.com/chenyahui/gin-cache", "github.com/gofiber/fiber/v2", "github.com/gofiber/fiber/v3",
			"github.com/gofiber/storage/redis/v3", "github.com/gin-gonic/gin", "github.com/labstack/echo/v4", "github.com/redis/go-redis/v9":
			all = append(all, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	return strings.Join(all, ", ")
}

// idleTime begins to watch how much of its time the machine has nothing to do, and returns a function that tells the share.
func idleTime() func(elapsed time.Duration) float64 {
	before := idleTicks()
	return func(elapsed time.Duration) float64 {
		const ticksPerSecond = 100 // USER_HZ, the same on all Linux systems that Go runs on
		return float64(idleTicks()-before) / (ticksPerSecond * elapsed.Seconds() * float64(runtime.NumCPU()))
	}
}

func idleTicks() int64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text)) // cpu user nice system idle iowait ...
	if len(fields) < 6 {
		return 0
	}
	idle, _ := strconv.ParseInt(fields[4], 10, 64)
	wait, _ := strconv.ParseInt(fields[5], 10, 64)
	return idle + wait
}
