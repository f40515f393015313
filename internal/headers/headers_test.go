package headers

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"testing"
)

func TestDiff(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after http.Header
		want          []Field
	}{
		{"nothing changed", http.Header{"A": {"1"}}, http.Header{"A": {"1"}}, nil},
		{"nil headers", nil, nil, nil},
		{"set", nil, http.Header{"A": {"1"}}, []Field{{Set, "A", "1"}}},
		{"several values", nil, http.Header{"A": {"1", "2", "1"}}, []Field{{Set, "A", "1"}, {Add, "A", "2"}, {Add, "A", "1"}}},
		{"replaced", http.Header{"A": {"1"}}, http.Header{"A": {"2"}}, []Field{{Set, "A", "2"}}},
		{"appended", http.Header{"Vary": {"Origin"}}, http.Header{"Vary": {"Origin", "Accept"}}, []Field{{Add, "Vary", "Accept"}}},
		{"shortened", http.Header{"A": {"1", "2"}}, http.Header{"A": {"1"}}, []Field{{Set, "A", "1"}}},
		{"deleted", http.Header{"A": {"1"}}, nil, []Field{{Op: Del, Name: "A"}}},
		{"muted", http.Header{"A": {"1"}}, http.Header{"A": nil}, []Field{{Op: Mute, Name: "A"}}},
		{"muted from nothing", nil, http.Header{"Date": {}}, []Field{{Op: Mute, Name: "Date"}}},
		{"mute lifted", http.Header{"Date": nil}, nil, []Field{{Op: Del, Name: "Date"}}},
		{"empty value", nil, http.Header{"A": {""}}, []Field{{Set, "A", ""}}},
		{"in the order of the names", nil, http.Header{"B": {"2"}, "A": {"1"}, "C": {"3"}}, []Field{{Set, "A", "1"}, {Set, "B", "2"}, {Set, "C", "3"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Diff(tt.before, tt.after); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Diff = %v, want %v", got, tt.want)
			}
		})
	}
}

// A difference replayed onto the header that it was taken from gives the header that the handler left.
func TestApplyUndoesDiff(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		before, after := randomHeader(random), randomHeader(random)
		if random.IntN(2) == 0 { // also what handlers usually do: change a few names of the outer header
			after = before.Clone()
			maps.Copy(after, randomHeader(random))
			for name := range randomHeader(random) {
				after[name] = append(after[name], "added")
			}
		}
		diff := Diff(before, after)
		got := before.Clone()
		Apply(got, diff)
		if !equal(got, after) {
			t.Fatalf("before %v, after %v: the difference %v replays to %v", before, after, diff, got)
		}
	}
}

// What one outer header held at the time of storing never shows under another one.
func TestApplyOntoAnotherHeader(t *testing.T) {
	before := http.Header{
		"Access-Control-Allow-Origin": {"https://a.example"},
		"X-Request-Id":                {"1"},
		"Vary":                        {"Origin"},
		"Server":                      {"outer"},
		"Content-Type":                {"text/plain"},
	}
	after := before.Clone()
	after.Add("Vary", "Accept-Language")
	after.Set("Content-Type", "application/json")
	after.Del("Server")
	after["Link"] = []string{"</a>", "</b>"}
	diff := Diff(before, after)

	got := http.Header{
		"Access-Control-Allow-Origin": {"https://b.example"},
		"X-Request-Id":                {"2"},
		"Vary":                        {"Origin", "Accept-Encoding"},
		"Server":                      {"outer"},
	}
	Apply(got, diff)
	want := http.Header{
		"Access-Control-Allow-Origin": {"https://b.example"},
		"X-Request-Id":                {"2"},
		"Vary":                        {"Origin", "Accept-Encoding", "Accept-Language"},
		"Content-Type":                {"application/json"},
		"Link":                        {"</a>", "</b>"},
	}
	if !equal(got, want) {
		t.Errorf("replayed to %v, want %v", got, want)
	}
}

// The values of a replay share one array; appending to one name must not reach the next.
func TestApplyKeepsValuesApart(t *testing.T) {
	h := http.Header{}
	Apply(h, []Field{{Set, "A", "1"}, {Add, "A", "2"}, {Set, "B", "3"}})
	h.Add("A", "appended")
	if got := h.Get("B"); got != "3" {
		t.Errorf("B = %q after an append to A", got)
	}
}

func TestGet(t *testing.T) {
	diff := []Field{{Op: Del, Name: "A"}, {Op: Mute, Name: "A"}, {Set, "etag", `"x"`}, {Add, "etag", `"y"`}, {Add, "B", "1"}}
	for name, want := range map[string]string{"A": "", "Etag": `"x"`, "B": "1", "C": ""} {
		if got := Get(diff, name); got != want {
			t.Errorf("Get(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	h := http.Header{"Cache-Control": {"a"}, "cache-control": {"b"}, "CACHE-CONTROL": {"c"}, "Cache-Contrul": {"d"}}
	for range 20 { // whatever the order of the map
		if got := Lines(h, "Cache-Control"); !slices.Equal(got, []string{"a", "c", "b"}) {
			t.Fatalf("Lines = %q", got)
		}
	}
	if got := Lines(http.Header{"set-cookie": {"a=b"}}, "Set-Cookie"); len(got) != 1 {
		t.Errorf("a name that is not canonical is not found: %q", got)
	}
	if got := Lines(nil, "Set-Cookie"); got != nil {
		t.Errorf("Lines of nothing = %q", got)
	}
}

func BenchmarkApply(b *testing.B) {
	diff := []Field{
		{Set, "Cache-Control", "max-age=60"}, {Set, "Content-Type", "application/json"}, {Set, "Etag", `"abc"`},
		{Set, "Link", "</a>"}, {Add, "Link", "</b>"}, {Set, "X-A", "1"}, {Set, "X-B", "2"},
	}
	h := http.Header{}
	b.ReportAllocs()
	for b.Loop() {
		clear(h)
		Apply(h, diff)
	}
}

func randomHeader(random *rand.Rand) http.Header {
	h := http.Header{}
	for range random.IntN(5) {
		name := string(rune('A' + random.IntN(6)))
		if h[name] == nil && random.IntN(6) == 0 {
			h[name] = nil // muted
			continue
		}
		h[name] = append(h[name], string(rune('0'+random.IntN(3))))
	}
	return h
}

// equal compares like reflect.DeepEqual, but takes nil and empty values as the same.
func equal(a, b http.Header) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]string])
}
