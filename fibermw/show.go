package fibermw

import (
	"bytes"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/internal/headers"
	"github.com/herdgate/herdgate/internal/host"
)

// show lets the handler see the request as the call wants it, until restore is called.
//
// The handler gets a header of its own, and the received one is set aside untouched: what middleware
// outside took from it before (c.Get, c.Method) aliases its buffers, and an edit in place, or
// a copy back into them, would change these strings under its hands.
func (x *exchange) show(call host.Call) (restore func()) {
	c := x.c
	received, method := c.UserContext(), x.Method()
	restore = func() {}
	if call.Context != nil {
		c.SetUserContext(call.Context)
		restore = func() { c.SetUserContext(received) }
	}
	otherMethod := call.Method != "" && call.Method != method
	if !otherMethod && len(call.Drop) == 0 && len(call.Set) == 0 {
		return restore
	}

	h := &c.Request().Header
	other := &fasthttp.RequestHeader{}
	h.CopyTo(other)
	remove(other, func(name string) bool { return hides(call, name) })
	for _, f := range call.Set {
		if f.Op == headers.Set || f.Op == headers.Add {
			other.Add(f.Name, f.Value)
		}
	}
	hideRaw(other.RawHeaders(), call)
	if otherMethod {
		other.SetMethod(call.Method)
		c.Method(call.Method)
	}
	swap(h, other)
	restoreContext := restore
	return func() {
		swap(h, other)
		c.Method(method)
		restoreContext()
	}
}

// hides reports whether the handler does not see the received lines of a request header, however the client spelled it.
func hides(call host.Call, name string) bool {
	return slices.ContainsFunc(call.Drop, func(drop string) bool { return strings.EqualFold(drop, name) }) ||
		slices.ContainsFunc(call.Set, func(f headers.Field) bool { return f.Op != headers.Add && strings.EqualFold(f.Name, name) })
}

// swap exchanges two values whole. fasthttp forbids copies of a header, because two copies would share
// buffers; after a swap each set of buffers still belongs to one.
func swap[T any](a, b *T) { *a, *b = *b, *a }

// hideRaw does to the header block as received (RawHeaders, AllInOrder) what call does to the parsed header, in place: it blanks
// the values of hidden lines, and puts a replacing value there if it fits.
func hideRaw(raw []byte, call host.Call) {
	replacing := make(map[string]string, len(call.Set)) // by lower-case name; each is used once
	for _, f := range call.Set {
		replacing[strings.ToLower(f.Name)] = f.Value
	}
	hidden := false
	for line := range bytes.Lines(raw) {
		value, replacement := line, ""
		if line[0] != ' ' && line[0] != '\t' { // else the value goes on from the line before
			name, rest, _ := bytes.Cut(line, []byte(":"))
			lower := strings.ToLower(string(bytes.TrimSpace(name)))
			hidden, value, replacement = hides(call, lower), rest, replacing[lower]
			delete(replacing, lower)
		}
		if !hidden {
			continue
		}
		value = bytes.TrimRight(value, "\r\n")
		for i := range value {
			value[i] = ' '
		}
		if len(replacement) < len(value) {
			copy(value[1:], replacement)
		}
	}
}
