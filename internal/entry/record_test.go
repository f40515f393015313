package entry

import (
	"reflect"
	"strings"
	"testing"
)

func TestRecordRoundTrip(t *testing.T) {
	for _, r := range []*Record{
		{},
		{Grant: 1_700_000_000_000_001, Token: [16]byte([]byte("0123456789abcdef")), Names: []string{"Accept-Encoding", "X-Tenant"}},
		{Names: []string{strings.Repeat("A", 300)}},
	} {
		raw := r.Encode()
		if len(raw) != cap(raw) {
			t.Errorf("%d bytes in an allocation of %d", len(raw), cap(raw))
		}
		if !IsRecord(raw) {
			t.Error("not taken for a record")
		}
		if len(Head(raw)) != HeadLen {
			t.Errorf("Head = %q", Head(raw))
		}
		got, err := DecodeRecord(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, r) {
			t.Errorf("decoded %+v, want %+v", got, r)
		}
	}
}

func TestIsRecord(t *testing.T) {
	for _, raw := range []string{"", "hg", "hge\x01", "xgr\x01"} {
		if IsRecord([]byte(raw)) {
			t.Errorf("%q is taken for a record", raw)
		}
	}
}

func TestLongestRecord(t *testing.T) {
	longest := &Record{Names: []string{strings.Repeat("A", MaxRecord-metadataAt-3)}} // the list and the name have lengths of 1 and 2 bytes
	longer := &Record{Names: []string{longest.Names[0] + "A"}}
	if raw := longest.Encode(); len(raw) != MaxRecord || !longest.Fits() {
		t.Errorf("%d bytes, fits %v", len(raw), longest.Fits())
	} else if _, err := DecodeRecord(raw); err != nil {
		t.Error(err)
	}
	if _, err := DecodeRecord(longer.Encode()); longer.Fits() || err == nil {
		t.Errorf("one byte more: fits %v, %v", longer.Fits(), err)
	}
}
