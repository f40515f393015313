package headers

import (
	"net/http"
	"reflect"
	"slices"
	"testing"
)

func TestStrip(t *testing.T) {
	for _, tt := range []struct {
		name  string
		diff  []Field
		after http.Header
		want  []Field
	}{
		{
			"RFC 9110 7.6.1: connection fields",
			[]Field{
				{Set, "Connection", "close"}, {Set, "Content-Type", "a/b"}, {Set, "Keep-Alive", "timeout=5"}, {Set, "Proxy-Connection", "close"},
				{Set, "Te", "trailers"}, {Set, "Trailer", "X"}, {Set, "Transfer-Encoding", "chunked"}, {Set, "Upgrade", "h2c"},
			},
			http.Header{"Connection": {"close"}},
			[]Field{{Set, "Content-Type", "a/b"}},
		},
		{
			"RFC 9110 7.6.1: what Connection names, over several lines and in any case",
			[]Field{{Set, "X-A", "1"}, {Add, "X-A", "2"}, {Set, "X-B", "3"}, {Set, "X-C", "4"}, {Set, "x-d", "5"}},
			http.Header{"Connection": {"close, x-a", " X-B ,,"}, "connection": {"X-D"}},
			[]Field{{Set, "X-C", "4"}},
		},
		{
			"RFC 9111 3.1: proxy authentication",
			[]Field{{Set, "Proxy-Authenticate", "Basic"}, {Set, "Proxy-Authentication-Info", "a"}, {Set, "Proxy-Authorization", "b"}, {Set, "Www-Authenticate", "Basic"}},
			nil,
			[]Field{{Set, "Www-Authenticate", "Basic"}},
		},
		{
			"RFC 9110 8.6: Content-Length is derived from the body",
			[]Field{{Set, "Content-Length", "5"}, {Set, "content-length", "6"}},
			nil,
			nil,
		},
		{
			"RFC 9110 5.1: not a field name",
			[]Field{{Set, "", "1"}, {Set, "A B", "2"}, {Set, "Trailer:X", "3"}, {Set, "Ä", "4"}, {Set, "A", "5"}},
			nil,
			[]Field{{Set, "A", "5"}},
		},
		{
			"RFC 9110 5.5: CR, LF and NUL become spaces",
			[]Field{{Set, "A", "1\r\nSet-Cookie: x=y"}, {Add, "A", "2\x003"}, {Set, "B", "\tä"}},
			nil,
			[]Field{{Set, "A", "1  Set-Cookie: x=y"}, {Add, "A", "2 3"}, {Set, "B", "\tä"}},
		},
		{
			"every other operation stays",
			[]Field{{Op: Del, Name: "Server"}, {Op: Mute, Name: "Date"}, {Op: Del, Name: "Upgrade"}},
			nil,
			[]Field{{Op: Del, Name: "Server"}, {Op: Mute, Name: "Date"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.diff)
			got := Strip(tt.diff, tt.after)
			if len(got) != len(tt.want) || len(got) > 0 && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Strip = %q, want %q", got, tt.want)
			}
			if !reflect.DeepEqual(tt.diff, before) {
				t.Errorf("the argument became %q", tt.diff)
			}
			if again := Strip(got, tt.after); !slices.Equal(again, got) {
				t.Errorf("a second Strip = %q, want %q", again, got)
			}
		})
	}
}

func FuzzStrip(f *testing.F) {
	f.Add("Content-Type", "text/html", "close")
	f.Add("X-A", "a\r\nb", "x-a")
	f.Fuzz(func(t *testing.T, name, value, connection string) {
		after := http.Header{"Connection": {connection}, name: {value}}
		for _, field := range Strip(Diff(nil, after), after) {
			if !Valid(field.Name, field.Value) {
				t.Errorf("%q is kept", field)
			}
		}
	})
}

func TestValid(t *testing.T) {
	for _, tt := range []struct {
		name, value string
		want        bool
	}{
		{"Content-Type", "text/html; charset=utf-8", true},
		{"x!#$%&'*+-.^_`|~9", "", true},
		{"A", "tab\tobs-text \xff", true},
		{"", "a", false},
		{"A:", "a", false},
		{"A B", "a", false},
		{"A\n", "a", false},
		{"Ä", "a", false},
		{"A", "a\rb", false},
		{"A", "a\nb", false},
		{"A", "a\x00b", false},
	} {
		if got := Valid(tt.name, tt.value); got != tt.want {
			t.Errorf("Valid(%q, %q) = %v", tt.name, tt.value, got)
		}
	}
}
