package rfc9111

import "testing"

func TestAcceptedCodings(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"RFC 9110 12.5.3: what browsers send", []string{"gzip, deflate, br, zstd"}, "br, deflate, gzip, zstd"},
		{"RFC 9110 12.5.3: order and case do not matter", []string{"BR", "gzip"}, "br, gzip"},
		{"RFC 9110 12.5.3: empty", []string{""}, "identity"},
		{"RFC 9110 12.5.3: identity", []string{"identity"}, "identity"},
		{"RFC 9110 12.5.3: nothing known", []string{"compress, dcb"}, "identity, others"},
		{"RFC 9110 12.5.3: star", []string{"*"}, "br, deflate, gzip, zstd, others"},
		{"RFC 9110 12.5.3: star but one", []string{"*, gzip;q=0"}, "br, deflate, zstd, others"},
		{"RFC 9110 12.5.3: all but one refused", []string{"gzip, *;q=0"}, "gzip, identity;q=0, others"},
		{"RFC 9110 12.5.3: all others refused but identity", []string{"identity;q=0.5, *;q=0"}, "identity, others"},
		{"RFC 9110 12.5.3: identity refused", []string{"br, identity;q=0"}, "br, identity;q=0"},
		{"RFC 9110 12.5.3: everything refused", []string{"*;q=0"}, "identity;q=0, others"},
		{"RFC 9110 12.4.2: weights", []string{"gzip;q=1.0, br ; Q=0.001, zstd;q=0.000, deflate;q=0"}, "br, gzip"},
		{"RFC 9110 12.4.2: no weights", []string{"gzip;q=2, br;q=0.0001, zstd;q=-1, deflate;q"}, "identity"},
		{"RFC 9110 12.4.2: no weights either", []string{"gzip;q=1.1, br;x=1, zstd;q=.5, deflate;q=0.x"}, "identity"},
		{"contradiction", []string{"gzip, gzip;q=0"}, "identity"},
		{"RFC 9110 8.4.1.3: x-gzip", []string{"x-gzip"}, "gzip"},
		{"empty members", []string{",, gzip,;q=1,"}, "gzip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := acceptedCodings(tt.lines).String(); got != tt.want {
				t.Errorf("%q: %q, want %q", tt.lines, got, tt.want)
			}
		})
	}
}

func TestEncodedAsAsked(t *testing.T) {
	for _, tt := range []struct {
		name    string
		request []string
		coding  string
		want    bool
	}{
		{"asked for", []string{"gzip, br"}, "gzip", true},
		{"RFC 9110 8.4.1.3: by another name", []string{"gzip"}, "X-GZIP", true},
		{"not asked for", []string{"br"}, "gzip", false},
		{"refused", []string{"gzip;q=0"}, "gzip", false},
		{"asked for, but not known to the normal form", []string{"gzip, compress"}, "compress", false},
		{"not known, and not asked for: everybody gets it", []string{"gzip"}, "x-own", true},
		{"not known, and maybe asked for", []string{"*"}, "x-own", false},
		{"one of two not asked for", []string{"gzip"}, "br, gzip", false},
		{"identity", []string{"gzip;q=0"}, "identity", true},
		{"no Accept-Encoding", nil, "compress", true},
		{"empty Accept-Encoding", []string{""}, "gzip", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Response{Status: 200, After: header("Content-Encoding", tt.coding), AcceptEncoding: tt.request}
			if got := encodedAsAsked(r); got != tt.want {
				t.Errorf("%q answered with %q: %v", tt.request, tt.coding, got)
			}
			r.Before = r.After // compressed by outer middleware: not what is stored
			if !encodedAsAsked(r) {
				t.Error("outer middleware's coding counts")
			}
		})
	}
}
