package capturetest

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"runtime"
	"strings"
	"time"
)

var silent = log.New(io.Discard, "", 0)

func goexit() { runtime.Goexit() }

// scenario is a handler whose response must look the same with and without the middleware.
type scenario struct {
	name    string
	method  string // GET if empty
	handler http.HandlerFunc
	reason  string // why it is passed on; "" if it is captured
	want    want
}

// want is the captured result.
type want struct {
	Status int // 0: the adapter's status of an empty response
	Body   string
	Flaw   string
}

func text(w io.Writer, s string) { _, _ = io.WriteString(w, s) }

var transparent = []scenario{
	{
		name: "header, status and several writes",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Handler", "1")
			w.Header().Add("Vary", "Accept")
			w.Header().Del("X-Gone")
			w.Header().Add("Link", "<a>")
			w.Header().Add("Link", "<b>")
			w.WriteHeader(404)
			_, _ = w.Write([]byte("not "))
			text(w, "found")
			_, _ = io.Copy(w, strings.NewReader(" at all"))
		},
		want: want{Status: 404, Body: "not found at all"},
	},
	{
		name:    "implicit status, sniffed type",
		handler: func(w http.ResponseWriter, _ *http.Request) { text(w, "<html>") },
		want:    want{Status: 200, Body: "<html>"},
	},
	{
		name: "muted type",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			text(w, "<html>")
		},
		want: want{Status: 200, Body: "<html>"},
	},
	{
		name: "cache status of the origin",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Add("X-Handler", "1")
			w.Header().Add("Cache-Status", "origin; hit")
			text(w, "x")
		},
		want: want{Status: 200, Body: "x"},
	},
	{
		name: "header after the header",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x")
			text(w, "x")
			w.Header().Set("X-Late", "1")
			w.WriteHeader(500)
		},
		want: want{Status: 200, Body: "x"},
	},
	{name: "nothing", handler: func(http.ResponseWriter, *http.Request) {}},
	{
		name:    "nothing but a header",
		handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Handler", "1") },
	},
	{
		name:    "status only",
		handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201) },
		want:    want{Status: 201},
	},
	{
		name:    "empty write",
		handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) },
		want:    want{Status: 200},
	},
	{
		name: "204",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			if _, err := w.Write([]byte("x")); err == nil {
				panic("a body with 204")
			}
		},
		want: want{Status: 204},
	},
	{
		name: "304",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Etag", `"1"`)
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "7")
			w.WriteHeader(304)
		},
		want: want{Status: 304},
	},
	{
		name:   "HEAD with a body",
		method: "HEAD",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			text(w, "x")
		},
		want: want{Status: 200, Body: "x"},
	},
	{
		name:   "HEAD with a length",
		method: "HEAD",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "100000")
			w.WriteHeader(200)
		},
		want: want{Status: 200},
	},
	{
		name:   "HEAD without",
		method: "HEAD",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.WriteHeader(404)
		},
		want: want{Status: 404},
	},
	{
		name: "declared length",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "4")
			text(w, "all!")
		},
		want: want{Status: 200, Body: "all!"},
	},
	{
		name: "shorter than declared",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "8")
			text(w, "half")
		},
		want: want{Status: 200, Body: "half", Flaw: "length"},
	},
	{
		name: "nothing of what was declared",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "8")
			w.WriteHeader(200)
		},
		want: want{Status: 200, Flaw: "length"},
	},
	{
		name: "longer than declared",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", "4")
			text(w, "all!")
			if _, err := w.Write([]byte(" and more")); !errors.Is(err, http.ErrContentLength) {
				panic(err)
			}
		},
		want: want{Status: 200, Body: "all!", Flaw: "length"},
	},
	{
		name: "unreadable length",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "four")
			text(w, "all!")
		},
		want: want{Status: 200, Body: "all!", Flaw: "length"},
	},
	{
		name: "announced trailer",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum, x-early,X-None")
			w.Header().Set("X-Early", "0")
			text(w, "x")
			w.Header().Set("X-Sum", "1")
		},
		want: want{Status: 200, Body: "x", Flaw: "trailer"},
	},
	{
		name: "trailer by prefix",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(http.TrailerPrefix+"X-Sum", "0") // later, net/http would have settled on a Content-Length
			text(w, "x")
			w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
		},
		want: want{Status: 200, Body: "x", Flaw: "trailer"},
	},
	{
		name: "trailers of a stream",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			text(w, "x")
			w.(http.Flusher).Flush()
			text(w, "y")
			w.Header().Set("X-Sum", "1")
			w.Header().Set(http.TrailerPrefix+"X-Other", "2")
		},
		reason: "flush",
	},
	{
		name:    "just the limit",
		handler: func(w http.ResponseWriter, _ *http.Request) { text(w, strings.Repeat("x", Limit)) },
		want:    want{Status: 200, Body: strings.Repeat("x", Limit)},
	},
	{
		name: "one byte over the limit",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Handler", "1")
			w.Header().Del("X-Gone")
			w.WriteHeader(404)
			for range Limit + 1 {
				text(w, "x")
			}
			text(w, "and on")
		},
		reason: "too-large",
	},
	{
		name: "declared beyond the limit",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", fmt.Sprint(Limit+1))
			text(w, "x")
			text(w, strings.Repeat("x", Limit))
		},
		reason: "too-large",
	},
	{
		name: "copied beyond the limit",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.Copy(w, io.LimitReader(neverEnding('x'), 1<<20))
		},
		reason: "too-large",
	},
	{
		name: "too large and cut",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Declared", "1")
			w.Header().Set("Content-Length", fmt.Sprint(10*Limit))
			text(w, strings.Repeat("x", 2*Limit))
		},
		reason: "too-large",
	},
	{
		name: "flush first",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			text(w, "x")
		},
		reason: "flush",
	},
	{
		name: "flush by controller, between",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			text(w, "x")
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			text(w, "y")
			w.(http.Flusher).Flush()
		},
		reason: "flush",
	},
	{
		name: "deadlines and full duplex",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			rc := http.NewResponseController(w)
			for _, err := range []error{
				rc.SetReadDeadline(time.Now().Add(time.Hour)), rc.SetWriteDeadline(time.Now().Add(time.Hour)), rc.EnableFullDuplex(),
			} {
				if err != nil {
					text(w, err.Error())
				}
			}
			text(w, "set")
		},
		want: want{Status: 200, Body: "set"},
	},
	{
		name: "early hints",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			w.Header().Set("X-Handler", "1")
			w.WriteHeader(200)
			text(w, "x")
		},
		want: want{Status: 200, Body: "x"},
	},
	{
		name: "early hints before a stream",
		handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			w.Header().Del("Link")
			text(w, "x")
			w.(http.Flusher).Flush()
		},
		reason: "flush",
	},
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}
