package core

import (
	"testing"

	"github.com/herdgate/herdgate/internal/entry"
	"github.com/herdgate/herdgate/internal/headers"
)

// A handler may be asked about a copy only if the grant proves that the copy was there: what was invalidated before must
// not come back by a 304.
func TestConditionsNeedProof(t *testing.T) {
	copied := &entry.Entry{Status: 200, Header: []headers.Field{{Op: headers.Set, Name: "Etag", Value: `"a"`}}}
	missing := &entry.Entry{Status: 404, Header: copied.Header}
	seen := stored{entry: copied, seen: []byte("head")}
	for _, tt := range []struct {
		name   string
		gr     grant
		copied *entry.Entry
		want   bool
	}{
		{"proven", grant{locked: true, seen: "head"}, copied, true},
		{"another was there", grant{locked: true, seen: "other"}, copied, false},
		{"nothing was there", grant{locked: true}, copied, false},
		{"nobody looked", grant{seen: "head"}, copied, false},
		{"no copy", grant{locked: true, seen: "head"}, nil, false},
		{"not a 200", grant{locked: true, seen: "head"}, missing, false},
	} {
		if got := tt.gr.conditions(seen, tt.copied) != nil; got != tt.want {
			t.Errorf("%s: asked: %v", tt.name, got)
		}
	}
}
