package ginmw

import (
	"context"

	"github.com/gin-gonic/gin"

	"github.com/herdgate/herdgate/internal/capture"
	"github.com/herdgate/herdgate/internal/host"
)

// exchange implements host.Exchange.
type exchange struct {
	capture.Request
	c   *gin.Context
	ran bool
}

func (x *exchange) Native() any { return x.c }

func (x *exchange) SetContext(ctx context.Context) { *x.HTTP = *x.HTTP.WithContext(ctx) }

// HeadIsGet is never certain: Gin routes HEAD apart, to a handler that may be another one.
func (x *exchange) HeadIsGet() bool { return false }

func (x *exchange) Run(call host.Call) host.Result {
	c := x.c
	x.ran = true
	if inner := x.For(call); inner != x.HTTP {
		c.Request = inner
		defer func() { c.Request = x.HTTP }()
	}
	outer := c.Writer
	if call.Limit == 0 {
		capture.Straight(outer.Header(), call)
		if call.Head == nil {
			c.Next()
			return host.Result{Passed: true}
		}
		w := &watcher{ResponseWriter: outer, head: call.Head}
		c.Writer = w
		defer func() { c.Writer = outer }()
		c.Next()
		w.tell()
		return host.Result{Passed: true}
	}

	w := newWriter(outer, c.Request.Method, call)
	c.Writer = w
	defer func() { // a recovery outside must not write its 500 into the capture
		c.Writer = outer
		w.Close()
	}()
	written, errors := outer.Written(), len(c.Errors)
	c.Next()
	w.settle()
	result := w.Close()
	switch {
	case result.Passed:
	case !written && outer.Written(): // Engine.HandleContext has answered past us
		if call.Passing != nil {
			call.Passing("stream")
		}
		return host.Result{Passed: true}
	case len(c.Errors) > errors:
		result.Flaw = "error"
	}
	return result
}

// Reply ends the chain if it has not run: to outer middleware an answered request looks aborted, a computed one does not.
func (x *exchange) Reply(reply host.Reply) {
	capture.Write(x.c.Writer, x.Method(), reply)
	if reply.Status != 0 {
		x.c.Writer.WriteHeaderNow() // else Gin adds its page for 404 and 405
	}
	if !x.ran {
		x.c.Abort()
	}
}

func (x *exchange) Freeze() func(ctx context.Context) { return x.Request.Freeze(x.Server()) }
