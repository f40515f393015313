package fibermw

import (
	"bytes"
	"errors"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/herdgate/herdgate/internal/host"
)

// Run implements host.Exchange.
func (x *exchange) Run(call host.Call) host.Result {
	defer x.show(call)()
	resp := x.c.Response()
	switch {
	case call.Limit <= 0:
		return x.straight(call, "")
	case resp.IsBodyStream(), len(resp.Body()) > 0:
		// Middleware outside has begun a body. What the handler adds cannot be told apart from it.
		return x.straight(call, "flush")
	}
	return x.capture(call)
}

// straight runs the handler without capture. Its error goes back to Fiber.
//
// Fiber sends nothing before the handler has returned, so Cache-Status is added then: a handler
// that proxies replaces the whole header, and the member of the cache nearest to the origin comes
// first (RFC 9211 2).
func (x *exchange) straight(call host.Call, reason string) host.Result {
	status := passing(call, reason)
	defer func() { x.mark(status) }()
	x.err = x.c.Next()
	if call.Head != nil {
		resp := x.c.Response()
		code := resp.StatusCode()
		var e *fiber.Error
		switch {
		case errors.As(x.err, &e): // Fiber makes the response later
			code = e.Code
		case x.err != nil:
			code = fiber.StatusInternalServerError
		}
		call.Head(code, snapshot(&resp.Header))
	}
	return host.Result{Passed: true}
}

// capture runs the handler and takes its response out of Fiber's buffer, so that the response is afterwards what
// middleware outside had left: after a panic too, so that nothing of half a response is sent with
// the 500 of the recover middleware.
func (x *exchange) capture(call host.Call) (result host.Result) {
	resp := x.c.Response()
	var outer fasthttp.ResponseHeader
	resp.Header.CopyTo(&outer)
	skipBody, immediate := resp.SkipBody, resp.ImmediateHeaderFlush
	defer func() {
		if result.Passed {
			return
		}
		resp.ResetBody()
		outer.CopyTo(&resp.Header)
		resp.SkipBody, resp.ImmediateHeaderFlush = skipBody, immediate
	}()

	err := x.c.Next()
	if err != nil {
		x.answerError(err)
	}
	if reason := x.uncapturable(call.Limit); reason != "" {
		x.mark(passing(call, reason))
		return host.Result{Passed: true}
	}

	result = host.Result{
		Status: resp.StatusCode(), // 200 for a handler that does nothing, as for its client
		Before: snapshot(&outer),
		After:  snapshot(&resp.Header),
		Err:    err,
	}
	if bodyAllowed(result.Status) {
		result.Body = bytes.Clone(resp.Body())
	}
	if result.After["Content-Type"] == nil && len(result.Body) > 0 {
		// fasthttp's default is part of the response; where it is disabled, so is its absence (headers.Mute).
		result.After["Content-Type"] = nil
		if made := resp.Header.ContentType(); len(made) > 0 {
			result.After["Content-Type"] = []string{string(made)}
		}
	}
	if len(resp.Header.PeekTrailerKeys()) > 0 {
		result.Flaw = "trailer"
	}
	return result
}

// answerError makes the response to a handler's error, as Fiber does with an error that nobody handled.
func (x *exchange) answerError(err error) {
	if x.c.App().ErrorHandler(x.c, err) != nil {
		_ = x.c.SendStatus(fiber.StatusInternalServerError)
	}
}

// uncapturable returns why the response cannot be taken, or "". A stream is not read: it may never end, and on
// an error fasthttp would make the error's text the body.
func (x *exchange) uncapturable(limit int64) string {
	resp := x.c.Response()
	switch {
	case x.c.Context().LastTimeoutErrorResponse() != nil:
		return "hijack" // fasthttp sends that one, and the handler's own goroutine may still write to ours
	case x.c.Context().Hijacked():
		return "hijack"
	case resp.IsBodyStream():
		return "stream"
	case int64(len(resp.Body())) > limit:
		return "too-large"
	}
	return ""
}

// passing announces that the response goes straight to the client, and returns its Cache-Status.
func passing(call host.Call, reason string) string {
	if call.Passing == nil {
		return ""
	}
	return call.Passing(reason)
}

// mark adds a Cache-Status to the response that will be sent.
func (x *exchange) mark(cacheStatus string) {
	resp := x.c.Response()
	if late := x.c.Context().LastTimeoutErrorResponse(); late != nil {
		resp = late
	}
	addCacheStatus(&resp.Header, cacheStatus)
}
