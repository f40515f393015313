package core

import (
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"slices"

	"github.com/herdgate/herdgate/internal/headers"
)

// A GateOption changes a whole gate; see New. It cannot be given to a route, nor a RouteOption to a gate.
type GateOption func(*Gate) error

// Logger is where the gate writes: once per route and reason when requests or responses of a route are never cached, with
// the cure, and once per kind of trouble with Redis. Default: slog.Default(). No URLs, keys, bodies or credentials are logged.
func Logger(l *slog.Logger) GateOption {
	return func(g *Gate) error {
		if l == nil {
			return errors.New("herdgate: Logger(nil): leave the option out for slog.Default()")
		}
		g.log = l
		return nil
	}
}

// Credentials names more request headers by which the service tells users apart ("X-Session"). Requests
// that carry one are treated like those with Authorization or Cookie: not cached, not shared, unless a route covers it.
func Credentials(names ...string) GateOption {
	return func(g *Gate) error {
		for _, name := range names {
			if !headers.IsToken(name) {
				return fmt.Errorf("herdgate: Credentials(%q): not a header name", name)
			}
			name = textproto.CanonicalMIMEHeaderKey(name)
			if !slices.Contains(g.credentials, name) {
				g.credentials = append(slices.Clip(g.credentials), name)
			}
		}
		return nil
	}
}

func (g *Gate) isCredential(name string) bool { return slices.Contains(g.credentials, name) }
