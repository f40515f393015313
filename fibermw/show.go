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
	for _, name := range call.Drop {
		x.drop(other, name)
	}
	for _, f := range call.Set {
		if f.Op != headers.Add {
			x.drop(other, f.Name)
		}
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

// drop deletes all lines of a request header.
func (x *exchange) drop(h *fasthttp.RequestHeader, name string) {
	h.Del(name)
	if !x.asSpelled {
		return
	}
	var spelled []string
	for key := range h.All() {
		if strings.EqualFold(string(key), name) {
			spelled = append(spelled, string(key))
		}
	}
	for _, name := range spelled {
		h.Del(name)
	}
}

// swap exchanges two values whole. fasthttp forbids copies of a header, because two copies would share
// buffers; after a swap each set of buffers still belongs to one.
func swap[T any](a, b *T) { *a, *b = *b, *a }

// hideRaw does to the header block as received (RawHeaders, AllInOrder) what call does to the parsed header, in place: it blanks
// the values of hidden lines, and puts a replaced value there if it fits.
func hideRaw(raw []byte, call host.Call) {
	var hidden bool
	var replacement string
	used := make([]bool, len(call.Set))
	for len(raw) > 0 {
		line := raw
		if end := bytes.IndexByte(raw, '\n'); end >= 0 {
			line = raw[:end]
			raw = raw[end+1:]
		} else {
			raw = nil
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		value := line
		if len(line) > 0 && line[0] != ' ' && line[0] != '\t' { // else the value goes on from the line before
			name, rest, _ := bytes.Cut(line, []byte(":"))
			named := func(n string) bool { return strings.EqualFold(n, string(bytes.TrimSpace(name))) }
			i := slices.IndexFunc(call.Set, func(f headers.Field) bool { return named(f.Name) })
			hidden, replacement, value = i >= 0 || slices.ContainsFunc(call.Drop, named), "", rest
			if i >= 0 && !used[i] {
				used[i], replacement = true, call.Set[i].Value
			}
		}
		if !hidden {
			continue
		}
		for i := range value {
			value[i] = ' '
		}
		if len(replacement) < len(value) {
			copy(value[1:], replacement)
		}
		replacement = ""
	}
}
